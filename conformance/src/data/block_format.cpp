// See block_format.hpp. The rules of the fields are in the head of quern_formats.h.
#include "data/block_format.hpp"

#include "data/float_codes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace quern::conformance {
namespace {

std::uint32_t bit_address(const quern_format_piece& piece, std::uint32_t entry) noexcept {
  std::uint32_t rest = entry - piece.first, at = piece.bit_offset;
  for (std::uint32_t d = piece.rank; d-- > 0;) {
    at += rest % piece.dims[d].size * piece.dims[d].stride;
    rest /= piece.dims[d].size;
  }
  return at;
}

std::uint64_t get_bits(const std::byte* block, std::uint32_t at, std::uint32_t count) noexcept {
  std::uint64_t value = 0;
  std::uint32_t have = 0;
  while (have < count) {
    const std::uint32_t in_byte = (at + have) % 8, take = std::min(8 - in_byte, count - have);
    const auto byte = static_cast<std::uint64_t>(block[(at + have) / 8]);
    value |= (byte >> in_byte & ((1u << take) - 1)) << have;
    have += take;
  }
  return value;
}

void put_bits(std::byte* block, std::uint32_t at, std::uint32_t count, std::uint64_t value) noexcept {
  for (std::uint32_t put = 0; put < count;) {
    const std::uint32_t in_byte = (at + put) % 8, take = std::min(8 - in_byte, count - put), mask = (1u << take) - 1;
    std::byte& place = block[(at + put) / 8];
    const auto others = static_cast<std::uint32_t>(place) & ~(mask << in_byte);
    place = static_cast<std::byte>(others | (static_cast<std::uint32_t>(value >> put) & mask) << in_byte);
    put += take;
  }
}

double e4m3_value(std::uint64_t bits) noexcept {
  const int exponent = static_cast<int>(bits >> 3 & 15u), eighths = static_cast<int>(bits & 7u);
  if ((bits & 0x7fu) == 0x7fu) return std::numeric_limits<double>::quiet_NaN();
  const double size = exponent == 0 ? std::ldexp(eighths, -9) : std::ldexp(8 + eighths, exponent - 10);
  return (bits & 0x80u) != 0 ? -size : size;
}

/// What each code stands for where it is no integer: numbers of a code table, or E4M3. Else empty.
std::vector<double> numbers_of_codes(const quern_format& format) {
  std::vector<double> numbers;
  if (format.formula == QUERN_FORMULA_SUPER_TABLE) {
    const auto& values = static_cast<const quern_code_table*>(format.header.next)->values;
    const auto* first = static_cast<const float*>(values.data);
    numbers.assign(first, first + values.count);
  }
  const auto* fields = static_cast<const quern_format_field*>(format.fields.data);
  const auto is_e4m3 = [](const quern_format_field& field) { return field.role == QUERN_ROLE_CODE && field.stored == QUERN_STORED_E4M3; };
  if (std::any_of(fields, fields + format.fields.count, is_e4m3))
    for (std::uint64_t code = 0; code < 256; ++code) numbers.push_back(e4m3_value(code));
  return numbers;
}

/// The codes whose numbers fit the data.
std::vector<std::uint64_t> codes_for(BlockData data, const std::vector<double>& numbers) {
  std::vector<std::uint64_t> codes;
  for (std::uint64_t code = 0; code < numbers.size(); ++code) {
    const double number = numbers[code];
    if (std::isnan(number) || (data == BlockData::positive && std::signbit(number))) continue;
    if (data == BlockData::integers && (number != std::nearbyint(number) || std::fabs(number) > 8)) continue;
    codes.push_back(code);
  }
  return codes;
}

double usual_size(const CounterRandom& random, std::uint64_t i) noexcept {
  const double size = 0x1p-6 * (0.5 + random.uniform(i));
  return (random.bits(i) & 1) != 0 ? -size : size;
}

std::uint16_t super_scale(BlockData data, const CounterRandom& random, std::uint64_t i) noexcept {
  // Sub-scales reach 128 and codes 128, sums thousands of products: 65504 stays below 2^31 a value.
  static constexpr std::uint16_t extremes[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x8201, 0x0400, 0x7bff, 0xfbff};
  if (data == BlockData::integers) return f16_bits(static_cast<double>(1 + random.below(i, 2)));
  if (data == BlockData::positive) return f16_bits(std::fabs(usual_size(random, i)));
  const std::uint64_t kind = random.stream(1).below(i, 12);
  return data == BlockData::extremes && kind < std::size(extremes) ? extremes[kind] : f16_bits(usual_size(random, i));
}

/// `middle`: of the codes. Usual values are centred, as trained weights are, within a tenth: where a whole group had one sign, the
/// errors of all outputs of a row would be one error.
std::uint16_t super_min(BlockData data, double scale, double middle, bool offset_formula, const CounterRandom& random,
                        std::uint64_t i) noexcept {
  if (data == BlockData::usual) return f16_bits((offset_formula ? -scale : scale) * middle * (0.9 + 0.2 * random.uniform(i)));
  if (data == BlockData::positive && !offset_formula) return 0;
  return super_scale(data, random, i);
}

}  // namespace

const BlockFormat* BlockFormat::find(quern_dtype dtype) {
  static const std::vector<BlockFormat> all(std::begin(quern_formats), std::end(quern_formats));
  for (const BlockFormat& format : all)
    if (format.format_->id == dtype) return &format;
  return nullptr;
}

BlockFormat::BlockFormat(const quern_format& format) : format_(&format), numbers_(numbers_of_codes(format)) {
  for (std::uint64_t f = 0; f < format.fields.count; ++f) {
    const auto& from = static_cast<const quern_format_field*>(format.fields.data)[f];
    std::vector<std::vector<BitRun>> entries(from.entries);
    Field field{from.role, from.stored, 0, static_cast<std::int64_t>(from.bias), {}, {0}};
    for (std::uint64_t p = 0; p < from.pieces.count; ++p) {
      const auto& piece = static_cast<const quern_format_piece*>(from.pieces.data)[p];
      field.width = std::max(field.width, piece.bits + piece.shift);
      for (std::uint32_t e = piece.first; e < piece.first + piece.count; ++e)
        entries.at(e).push_back({bit_address(piece, e), piece.bits, piece.shift});
    }
    for (const std::vector<BitRun>& runs : entries) {
      field.runs.insert(field.runs.end(), runs.begin(), runs.end());
      field.starts.push_back(static_cast<std::uint32_t>(field.runs.size()));
    }
    fields_.push_back(std::move(field));
  }
  if (field(QUERN_ROLE_CODE) == nullptr || field(QUERN_ROLE_SUPER_SCALE) == nullptr)
    throw std::logic_error("a format without codes or scale");
  const Field& code = *field(QUERN_ROLE_CODE);
  if (code.width > 8) throw std::logic_error("a code of more than 8 bits");
  code_values_ = numbers_;
  for (std::uint64_t bits = code_values_.size(); bits >> code.width == 0; ++bits) code_values_.push_back(number(code, bits));
}

const BlockFormat::Field* BlockFormat::field(std::uint32_t role) const noexcept {
  for (const Field& f : fields_)
    if (f.role == role) return &f;
  return nullptr;
}

inline std::uint64_t BlockFormat::BitRun::of(const std::byte* block) const noexcept {
  if (at % 8 + bits <= 8) return (static_cast<std::uint64_t>(block[at / 8]) >> at % 8 & ((1u << bits) - 1)) << shift;
  return get_bits(block, at, bits) << shift;
}

inline void BlockFormat::BitRun::put(std::byte* block, std::uint64_t value) const noexcept {
  if (at % 8 + bits > 8) return put_bits(block, at, bits, value >> shift);
  const std::uint32_t mask = (1u << bits) - 1, others = static_cast<std::uint32_t>(block[at / 8]) & ~(mask << at % 8);
  block[at / 8] = static_cast<std::byte>(others | (static_cast<std::uint32_t>(value >> shift) & mask) << at % 8);
}

inline std::uint64_t BlockFormat::raw(const Field& field, const std::byte* block, std::uint32_t e) noexcept {
  std::uint64_t bits = 0;
  for (const BitRun& run : field.of(e)) bits += run.of(block);
  return bits;
}

double BlockFormat::number(const Field& field, const std::byte* block, std::uint32_t e) noexcept {
  return number(field, raw(field, block, e));
}

double BlockFormat::number(const Field& field, std::uint64_t bits) noexcept {
  if (field.stored == QUERN_STORED_F16) return f16_value(static_cast<std::uint16_t>(bits));
  if (field.stored == QUERN_STORED_F32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  auto value = static_cast<std::int64_t>(bits);
  if (field.stored == QUERN_STORED_INT && (bits >> (field.width - 1)) != 0) value -= std::int64_t{1} << field.width;
  return static_cast<double>(value - field.bias);
}

bool BlockFormat::has_minimums() const noexcept {
  return format_->formula == QUERN_FORMULA_OFFSET || format_->formula == QUERN_FORMULA_SUPER_OFFSET;
}

void BlockFormat::decode_block(const std::byte* block, double* scaled, double* minimum) const {
  const Field &code = *field(QUERN_ROLE_CODE), *scale = field(QUERN_ROLE_SCALE), *min = field(QUERN_ROLE_MIN),
              *zero = field(QUERN_ROLE_ZERO);
  const double super_scale = number(*field(QUERN_ROLE_SUPER_SCALE), block, 0);
  const Field* min_field = field(QUERN_ROLE_SUPER_MIN);
  const double super_min = min_field == nullptr ? 0.0 : number(*min_field, block, 0);
  const std::uint32_t in_group = format_->group_elements;
  for (std::uint32_t g = 0; g * in_group < format_->block_elements; ++g) {
    const double factor = scale == nullptr ? super_scale : super_scale * number(*scale, block, g);
    const double offset = format_->formula == QUERN_FORMULA_OFFSET         ? super_min
                          : format_->formula == QUERN_FORMULA_SUPER_OFFSET ? -super_min * number(*min, block, g)
                                                                           : 0.0;
    const double zero_point = zero == nullptr ? 0.0 : number(*zero, block, g);
    for (std::uint32_t i = g * in_group; i < (g + 1) * in_group; ++i) {
      scaled[i] = factor * (code_values_[raw(code, block, i)] - zero_point);
      minimum[i] = offset;
    }
  }
}

void BlockFormat::read_parts(const std::byte* blocks, std::int64_t first, std::int64_t count, double* scaled, double* minimum) const {
  const std::int64_t n = format_->block_elements;
  double decoded[256], offsets[256];
  for (std::int64_t i = first; i < first + count;) {
    const std::int64_t block = i / n, from = i - block * n, take = std::min(n - from, first + count - i);
    decode_block(blocks + block * format_->block_bytes, decoded, offsets);
    std::copy_n(decoded + from, take, scaled + (i - first));
    std::copy_n(offsets + from, take, minimum + (i - first));
    i += take;
  }
}

void BlockFormat::read(const std::byte* blocks, std::int64_t first, std::int64_t count, double* out) const {
  constexpr std::int64_t piece = 256;
  double minimum[piece];
  for (std::int64_t done = 0; done < count; done += piece) {
    const std::int64_t n = std::min(piece, count - done);
    read_parts(blocks, first + done, n, out + done, minimum);
    for (std::int64_t i = 0; i < n; ++i) out[done + i] += minimum[i];
  }
}

void BlockFormat::set_entry(std::byte* block, std::uint32_t role, std::uint32_t e, std::uint64_t bits) const {
  const Field* f = field(role);
  if (f == nullptr) return;
  if (e >= f->entries()) throw std::out_of_range("a field has no such entry");
  for (const BitRun& run : f->of(e)) run.put(block, bits);
}

void BlockFormat::fill_codes(std::byte* block, std::uint64_t number, BlockData data, const std::vector<std::uint64_t>& chosen,
                             const CounterRandom& random) const {
  const std::uint64_t half_of_codes = std::uint64_t{1} << (field(QUERN_ROLE_CODE)->width - 1);
  for (const Field& f : fields_) {
    if (f.stored == QUERN_STORED_F16 || f.stored == QUERN_STORED_F32) continue;
    const std::uint64_t values = std::uint64_t{1} << f.width;
    for (std::uint32_t e = 0; e < f.entries(); ++e) {
      std::uint64_t bits = random.bits((number * 8 + f.role) * 256 + e) >> 17 & (values - 1);
      if (f.role == QUERN_ROLE_CODE && !chosen.empty()) {
        bits = chosen[bits % chosen.size()];
      } else if (f.role == QUERN_ROLE_CODE && data == BlockData::positive) {
        if (f.stored == QUERN_STORED_INT) bits &= values / 2 - 1;
        else if (f.bias > 0) bits = static_cast<std::uint64_t>(f.bias) + bits % (values - static_cast<std::uint64_t>(f.bias));
      }
      if (f.role == QUERN_ROLE_CODE && data == BlockData::integers && f.width > 6 && chosen.empty()) {  // 8-bit codes: within +-8
        bits = f.stored == QUERN_STORED_INT ? (bits % 17 + values - 8) & (values - 1) : bits % 9;
      }
      if (f.role == QUERN_ROLE_ZERO && data == BlockData::usual) bits = half_of_codes - (bits & 1);
      if (f.role == QUERN_ROLE_ZERO && data == BlockData::positive) bits = 0;
      if (f.role != QUERN_ROLE_CODE && data == BlockData::integers) bits %= 3;
      if (f.role == QUERN_ROLE_SCALE && data == BlockData::positive && f.stored == QUERN_STORED_INT) bits &= values / 2 - 1;
      if (f.role == QUERN_ROLE_MIN && data == BlockData::positive) bits = 0;
      if (f.role == QUERN_ROLE_MIN && data == BlockData::usual) bits = (raw(*field(QUERN_ROLE_SCALE), block, e) & ~3ull) | (bits & 3);
      for (const BitRun& run : f.of(e)) run.put(block, bits);
    }
  }
}

void BlockFormat::fill(std::byte* blocks, std::int64_t block_count, BlockData data, const CounterRandom& random) const {
  std::memset(blocks, 0, static_cast<std::size_t>(block_count) * format_->block_bytes);
  const bool offset_formula = format_->formula == QUERN_FORMULA_OFFSET;
  const Field& code = *field(QUERN_ROLE_CODE);
  const double middle = static_cast<double>((std::int64_t{1} << code.width) - 1) / 2.0 - static_cast<double>(code.bias);
  const std::vector<std::uint64_t> chosen = codes_for(data, numbers_);
  for (std::int64_t b = 0; b < block_count; ++b) {
    std::byte* block = blocks + b * format_->block_bytes;
    const auto i = static_cast<std::uint64_t>(b);
    fill_codes(block, i, data, chosen, random.stream(1));
    const std::uint16_t scale = super_scale(data, random.stream(2), i);
    const auto as_f32 = std::bit_cast<std::uint32_t>(static_cast<float>(f16_value(scale)));
    set_entry(block, QUERN_ROLE_SUPER_SCALE, 0, field(QUERN_ROLE_SUPER_SCALE)->stored == QUERN_STORED_F32 ? as_f32 : scale);
    set_entry(block, QUERN_ROLE_SUPER_MIN, 0, super_min(data, f16_value(scale), middle, offset_formula, random.stream(3), i));
  }
}

}  // namespace quern::conformance
