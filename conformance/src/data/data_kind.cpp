// See data_kind.hpp.
#include "data/data_kind.hpp"

#include "data/block_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace quern::conformance {
namespace {

BlockData block_data(DataKind kind) noexcept {
  switch (kind) {
    case DataKind::positive: return BlockData::positive;
    case DataKind::integers: return BlockData::integers;
    case DataKind::specials: return BlockData::extremes;
    default: return BlockData::usual;
  }
}

/// A number that a kernel may treat apart, of the dtype itself.
double special(quern_dtype dtype, std::uint64_t which) noexcept {
  const bool half = dtype == QUERN_F16;
  const double largest = half ? 65504.0 : dtype == QUERN_BF16 ? 0x1.fep127 : 0x1.fffffep127;
  const double least_normal = half ? 0x1p-14 : 0x1p-126;
  const double least = half ? 0x1p-24 : dtype == QUERN_BF16 ? 0x1p-133 : 0x1p-149;
  const double infinity = std::numeric_limits<double>::infinity();
  const double table[] = {0.0,
                          -0.0,
                          infinity,
                          -infinity,
                          std::numeric_limits<double>::quiet_NaN(),
                          largest,
                          -largest,
                          least_normal,
                          -least_normal,
                          least,
                          -least,
                          least_normal - least,
                          1.0,
                          -1.0,
                          3.141592653589793,
                          0.99609375};
  return table[which % std::size(table)];
}

double element(DataKind kind, quern_dtype dtype, std::uint64_t i, const CounterRandom& random) {
  switch (kind) {
    case DataKind::uniform: return 2.0 * random.uniform(i) - 1.0;
    case DataKind::gaussian: return random.gaussian(i);
    case DataKind::positive: return 0.25 + random.uniform(i);
    case DataKind::heavy: return random.gaussian(i) * (random.stream(1).below(i, 257) == 0 ? 30.0 : 1.0);
    case DataKind::exponents: {
      const std::uint64_t bits = random.bits(i);
      const double size = std::ldexp(1.0 + static_cast<double>(bits >> 12 & 0xffffff) * 0x1p-24, static_cast<int>((bits >> 40) % 24) - 20);
      return (bits & 1) != 0 ? -size : size;
    }
    case DataKind::integers: return static_cast<double>(random.below(i, 17)) - 8.0;
    case DataKind::specials: return random.below(i, 3) == 0 ? special(dtype, random.bits(i) >> 8) : random.gaussian(i);
    case DataKind::one_hot: break;
  }
  throw std::logic_error("one_hot is filled by rows");
}

void fill_one_hot(const Tensor& tensor, const CounterRandom& random) {
  const std::int64_t row = std::max<std::int64_t>(1, tensor.dim_from_end(0));
  for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, 0.0);
  for (std::int64_t r = 0; r * row < tensor.count(); ++r)
    tensor.set(r * row + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(row))), 1.0);
}

void fill_all(const Tensor& tensor, DataKind kind, const CounterRandom& random) {
  if (const BlockFormat* format = BlockFormat::find(tensor.dtype())) {
    format->fill(tensor.bytes().data(), tensor.count() / unit_of(tensor.dtype()).elements, block_data(kind), random);
  } else if (kind == DataKind::one_hot) {
    fill_one_hot(tensor, random);
  } else {
    const bool integer = !is_float(tensor.dtype());  // integers get integers: no rounding rule is tested here
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      tensor.set(i, element(integer ? DataKind::integers : kind, tensor.dtype(), static_cast<std::uint64_t>(i), random));
  }
}

/// Units after which the data of a huge tensor starts again: a prime, so that no row, tile or page has the data of its neighbours. A block
/// is many elements.
constexpr std::int64_t repeat_after(const Unit& unit) { return unit.elements == 1 ? 1048573 : 65521; }

}  // namespace

const char* data_name(DataKind kind) {
  switch (kind) {
    case DataKind::uniform: return "uniform";
    case DataKind::gaussian: return "gaussian";
    case DataKind::positive: return "positive";
    case DataKind::heavy: return "heavy";
    case DataKind::exponents: return "exponents";
    case DataKind::one_hot: return "one_hot";
    case DataKind::integers: return "integers";
    case DataKind::specials: return "specials";
  }
  throw std::logic_error("a data kind without a name");
}

bool is_centred(DataKind kind) noexcept { return kind == DataKind::uniform || kind == DataKind::gaussian; }

void fill(const Tensor& tensor, DataKind kind, const CounterRandom& random) {
  const Unit unit = unit_of(tensor.dtype());
  const std::int64_t units = tensor.count() / unit.elements;
  const std::int64_t period = repeat_after(unit);
  if (units <= 2 * period || kind == DataKind::one_hot) return fill_all(tensor, kind, random);
  const std::uint64_t part = static_cast<std::uint64_t>(period) * unit.bytes;
  fill_all(Tensor(tensor.dtype(), {period * unit.elements}, tensor.bytes().first(part)), kind, random);
  for (std::uint64_t done = part; done < tensor.bytes().size();) {
    const std::uint64_t size = std::min<std::uint64_t>(done, tensor.bytes().size() - done);
    std::memcpy(tensor.bytes().data() + done, tensor.bytes().data(), size);  // done is a multiple of the part, so the copies join
    done += size;
  }
}

}  // namespace quern::conformance
