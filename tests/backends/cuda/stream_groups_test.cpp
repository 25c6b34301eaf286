// One row of the formats of quantised directories (stream.cu, group_dot.cuh) over a card in plain C++ (emulated_card.hpp): what its kernels compute, from
// activations of either form, with each end that a step gives them.
#define EMULATED_BULK_COPIES
#include <stream.cu>

#include "block_matrix.hpp"
#include "ops/matmul.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <ostream>
#include <random>
#include <utility>

namespace quern::cuda {
namespace {

constexpr TilesCard card{2, 232448},
    one_block{1, 232448};  // blocks run one behind the other here, and those with adapters wait for one another
constexpr float epsilon = 1e-5f, offset = 1;

Address at_of(auto& of) { return reinterpret_cast<Address>(of.data()); }

/// A row whose codes are known: of 32 numbers one is 127 times a power of two, the others are whole multiples of it. Its norm's weights are powers of two.
struct Row {
  explicit Row(std::int64_t k) : x(k), weight(k), codes(k), meta(k / 4), sums(k / 8) {
    std::mt19937 random(static_cast<unsigned>(k));
    for (std::int64_t group = 0; group < k / 32; ++group) {
      const float unit = std::ldexp(1.0f, -static_cast<int>(random() % 5) - 4),
                  of_norm = std::ldexp(1.0f, static_cast<int>(random() % 3) - 1);
      int sum = 0;
      float squares = 0;
      for (std::int64_t i = group * 32; i < group * 32 + 32; ++i) {
        const int code = i % 32 == group % 32 ? 127 : static_cast<int>(random() % 255) - 127;
        x[i] = static_cast<float>(code) * unit;
        weight[i] = of_norm - offset;
        codes.data()[i] = static_cast<std::byte>(code);
        sum += code;
        squares += x[i] * x[i];
      }
      reinterpret_cast<float2*>(meta.data())[group] = {unit * of_norm, static_cast<float>(sum)};
      reinterpret_cast<float*>(sums.data())[group] = squares;
      for (std::int64_t i = group * 32; i < group * 32 + 32; ++i) squares_of_all += static_cast<double>(x[i] * x[i]);
    }
  }
  double value(std::int64_t i) const { return static_cast<double>(x[i] * (weight[i] + offset)); }
  double factor() const { return 1 / std::sqrt(squares_of_all / static_cast<double>(x.size()) + static_cast<double>(epsilon)); }

  std::vector<float> x, weight;
  Bytes codes, meta, sums;
  double squares_of_all = 0;
};

struct Product {
  std::vector<quern_dtype> dtypes;  // of each part
  std::int64_t k, n;                // n: of the first part; others have 16
  bool raw = true, glu = false, quantises = false, gelu = false, adapted = false;
};
void PrintTo(const Product& p, std::ostream* out) {
  for (const quern_dtype dtype : p.dtypes) *out << sdk::dtype_name(dtype) << " ";
  *out << "k " << p.k << ", n " << p.n << (p.raw ? ", raw" : "") << (p.glu ? ", glu" : "") << (p.quantises ? ", quantises" : "")
       << (p.gelu ? ", gelu" : "") << (p.adapted ? ", adapted" : "");
}

/// An adapter of rank 3 for one part, in a pool of f32: small eighths, the scale 1 / 2 and alpha 2.
struct Adapter3 {
  static constexpr int rank = 3;
  Adapter3(std::int64_t n, std::int64_t k, const char* name)
      : k(k), numbers(rank * (n + k)), table{0, static_cast<int>(rank * k), rank, std::bit_cast<int>(0.5f)} {
    std::mt19937 random(static_cast<unsigned>(name[0]));
    for (float& number : numbers) number = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
  }
  AdapterPart part(std::int64_t n) { return {at_of(numbers), at_of(table), at_of(slot), F32, std::ssize(numbers), 1, 0, n, 2}; }
  /// What it adds to an output's dot product, before the norm's factor, and the sum of the sizes of what that is made of.
  std::pair<double, double> added(const Row& x, std::int64_t row) const {
    double sum = 0, size = 0;
    for (std::int64_t r = 0; r < rank; ++r)
      for (std::int64_t i = 0; i < k; ++i) {
        const double product =
            static_cast<double>(numbers[r * k + i]) * x.value(i) * static_cast<double>(numbers[rank * k + row * rank + r]);
        sum += product, size += std::abs(product);
      }
    return {sum, size};
  }
  std::int64_t k;
  std::vector<float> numbers;
  std::vector<int> table, slot{0};
};

/// A dot product, and how far from it a kernel's may be.
struct Dot {
  double value = 0, bound = 0;
};
/// Products of a code and an activation's are exact, and so is what a zero point takes off. Four products of e4m3 are summed by three roundings to f16, of at
/// most half, three quarters and all of their sizes where these are alike, 2^-11 each; eight such sums in f32. Then come the scale, sums of a lane's items, of 32
/// lanes and of shares of a row. Numbers of NF4 are off by 2^-15 of their scale.
Dot dot_of(const BlockMatrix& w, const Row& x, std::int64_t row) {
  const std::int64_t k = w.layout.k, elements = sdk::block_fields(w.layout.dtype).elements;
  Dot dot;
  double size = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const double product = w.numbers[row * k + i] * x.value(i) * x.factor();
    dot.value += product, size += std::abs(product);
    if (w.layout.dtype != QUERN_NF4_64) continue;
    float scale = 0;
    std::memcpy(&scale, reinterpret_cast<const std::byte*>(w.bytes.words.data()) + (row * k + i) / elements * 4, 4);
    dot.bound += 0x1p-15 * static_cast<double>(std::abs(scale)) * std::abs(x.value(i)) * x.factor();
  }
  if (w.layout.dtype == QUERN_F8_128) dot.bound += 3 * 0x1p-11 * size;
  dot.bound += size * 0x1p-24 * (static_cast<double>(k) / 1024 + 40);
  return dot;
}

class StreamGroups : public testing::TestWithParam<Product> {};

TEST_P(StreamGroups, OneRowIsThatOfDecodedWeights) {
  const Product what = GetParam();
  std::vector<BlockMatrix> w;
  for (std::size_t i = 0; i < what.dtypes.size(); ++i)
    w.emplace_back(what.dtypes[i], std::initializer_list<std::int64_t>{i == 0 || what.glu ? what.n : 16, what.k}, true,
                   i == 0   ? "first"
                   : i == 1 ? "second"
                            : "third");
  Row x(what.k);
  std::vector<float> bias(static_cast<std::size_t>(what.n)), residual(bias.size());
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = std::sin(static_cast<float>(i)), residual[i] = std::cos(static_cast<float>(i));
  std::vector<std::vector<float>> y;
  GemvParams g{};
  for (std::size_t i = 0; i < w.size(); ++i) {
    y.emplace_back(static_cast<std::size_t>(w[i].layout.rows), -77.0f);
    g.part[i] = {blocks_of(w[i].tensor), at_of(y[i]), what.glu || i == 1 ? 0 : at_of(bias), static_cast<int>(w[i].layout.rows)};
  }
  g.parts = static_cast<int>(w.size());
  g.k = static_cast<int>(what.k);
  g.t = 1;
  g.glu = what.glu ? 1 : 0;
  g.activation = what.glu ? act_silu : what.gelu ? act_gelu_erf : act_none;
  g.x.epsilon = epsilon;
  const bool adds = w.size() == 1 && !what.gelu;
  if (adds) g.residual = at_of(residual);
  RawInput raw;
  if (what.raw) {
    raw.x = at_of(x.x), raw.weight = at_of(x.weight), raw.offset = offset, raw.norm = true;
  } else {
    g.x.codes = x.codes.address(), g.x.meta = x.meta.address(), g.x.sums = x.sums.address();
    g.x.sum_count = static_cast<int>(what.k / 32);
  }
  Bytes codes(what.n), meta(what.n / 4), sums(what.n / 8);
  if (what.quantises) {
    g.out.codes = codes.address(), g.out.meta = meta.address(), g.out.sums = sums.address();
    g.out.sum_count = static_cast<int>(what.n / 32);
  }
  std::vector<Adapter3> adapter;
  for (std::size_t i = 0; what.adapted && i < w.size(); ++i) adapter.emplace_back(w[i].layout.rows, what.k, i == 0 ? "first" : "second");
  Adapters adapters{};
  std::vector<u64> words(3 * 32);
  u32 left = 0;
  int fault = 0;
  for (std::size_t i = 0; i < adapter.size(); ++i) adapters.part[i] = adapter[i].part(w[i].layout.rows);
  adapters.x = at_of(x.x), adapters.weight = at_of(x.weight), adapters.offset = offset;
  adapters.words = at_of(words), adapters.count = reinterpret_cast<Address>(&left), adapters.most_rank = 32;
  adapters.faults = reinterpret_cast<Address>(&fault);
  const auto l = tiles_launch(g, false, what.adapted ? one_block : card, raw, what.adapted ? &adapters : nullptr);
  ASSERT_TRUE(l && l->stream);
  const bool general = is_general(g, raw);
  run_emulated(what.adapted     ? what.quantises ? stream_groups_adapted_quantise_1
                                  : general      ? stream_groups_adapted_general_1
                                                 : stream_groups_adapted_1
               : general        ? what.quantises ? stream_groups_general_quantise_1 : stream_groups_general_1
               : what.quantises ? stream_groups_quantise_1
                                : stream_groups_1,
               static_cast<u32>(l->grid), 1, l->p, 576);
  EXPECT_EQ(fault, 0);
  EXPECT_EQ(words, std::vector<u64>(words.size())) << "they stay zeros for the next step";
  const auto gelu = [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.0)); };
  for (std::size_t part = 0; part < (what.glu ? 1 : w.size()); ++part)
    for (std::int64_t row = 0; row < w[part].layout.rows; ++row) {
      const auto dot = [&](std::size_t of) {
        Dot made = dot_of(w[of], x, row);
        if (!what.adapted) return made;
        const auto [sum, size] = adapter[of].added(x, row);
        made.value += sum * x.factor();
        made.bound += size * x.factor() * 0x1p-24 * static_cast<double>(what.k);
        return made;
      };
      Dot want = dot(part);
      if (what.glu) {
        const Dot up = dot(1);
        const double silu = want.value / (1 + std::exp(-want.value));  // its slope is 1.1 at most
        want = {silu * up.value, 1.1 * want.bound * (std::abs(up.value) + up.bound) + std::abs(silu) * up.bound};
      } else if (part != 1) {
        want.value += static_cast<double>(bias[row]);
      }
      if (adds) want.value += static_cast<double>(residual[row]);
      if (what.gelu && part == 0) want = {gelu(want.value), 1.13 * want.bound};
      want.bound += (std::abs(want.value) + 2) * 0x1p-20;  // of a few functions and sums behind the product
      const double got = static_cast<double>(y[part][static_cast<std::size_t>(row)]);
      EXPECT_NEAR(got, want.value, want.bound) << "part " << part << ", output " << row;
      if (!what.quantises) continue;
      const float2 m = reinterpret_cast<float2*>(meta.data())[row / 32];
      EXPECT_NEAR(static_cast<double>(static_cast<std::int8_t>(codes.data()[row])) * static_cast<double>(m.x), got,
                  0.5001 * static_cast<double>(m.x))
          << "code " << row;
    }
}

TEST(StreamGroups, TablesHaveTheirDigits) {
  for (int code = 0; code < 16; ++code) {
    const u32 which = static_cast<u32>(code) * 0x1111, other = which ^ 0x8888;
    const auto number = [&](auto wholes) {
      Digits<decltype(wholes)> high, low;
      high.template make<true>(0), low.template make<false>(0);
      const int hi = high.dot(which, other, 1, 0), lo = low.dot(which, other, 1, 0);
      return static_cast<double>(128 * hi + lo) / static_cast<double>(+wholes.whole);
    };
    EXPECT_NEAR(number(Nf4Wholes()), static_cast<double>(quern_nf4_values[code]), 0x1p-15) << code;
    EXPECT_NEAR(number(Fp4Wholes()), static_cast<double>(quern_fp4_values[code]), 0x1p-24) << code;
  }
}

TEST(StreamGroups, OtherNumbersOfRowsHaveNoKernelHere) {
  BlockMatrix w(QUERN_Q4_Z128, {16, 256}, true, "weights");
  GemvParams g{};
  g.part[0] = {blocks_of(w.tensor), 0, 0, 16};
  g.parts = 1, g.k = 256;
  g.t = 2;
  EXPECT_FALSE(tiles_launch(g, false, card));
  g.t = 1;
  EXPECT_TRUE(tiles_launch(g, false, card));
  EXPECT_FALSE(tiles_launch(g, true, card)) << "invariant results have one order of sums for any number of rows";
}

constexpr auto q4 = QUERN_Q4_Z128;
// Rows of whole tiles and not, k with a part of a turn of a warp, rows that several warps share, and heads that begin at no multiple of 16 bytes.
INSTANTIATE_TEST_SUITE_P(Formats, StreamGroups,
                         testing::Values(Product{{QUERN_Q4_Z32}, 1088, 40}, Product{{QUERN_Q4_Z64}, 1088, 24, false},
                                         Product{{q4}, 1408, 40}, Product{{q4}, 128, 16, false}, Product{{QUERN_Q8_Z128}, 1152, 24},
                                         Product{{QUERN_Q8_128}, 640, 24, false}, Product{{QUERN_F8_128}, 1408, 24},
                                         Product{{QUERN_F8_128}, 5248, 24, false}, Product{{QUERN_NF4_64}, 1088, 24},
                                         Product{{QUERN_FP4_64}, 1216, 24, false}, Product{{q4}, 10368, 24, false}));
INSTANTIATE_TEST_SUITE_P(
    Ends, StreamGroups,
    testing::Values(Product{{q4, q4}, 1408, 40, true, true}, Product{{q4, q4}, 384, 32, true, true, true},
                    Product{{q4}, 1152, 32, true, false, true}, Product{{QUERN_F8_128, QUERN_F8_128}, 5248, 32, true, true, true},
                    Product{{QUERN_NF4_64, QUERN_NF4_64}, 1088, 32, true, true}, Product{{q4}, 640, 32, true, false, true, true},
                    Product{{QUERN_FP4_64}, 320, 24, true, false, false, true}, Product{{q4}, 640, 40, true, false, false, false, true},
                    Product{{QUERN_NF4_64, QUERN_NF4_64}, 576, 32, true, true, true, false, true},
                    Product{{QUERN_F8_128}, 384, 24, false, false, false, true, true}, Product{{q4, QUERN_Q8_Z128, QUERN_Q8_128}, 1408, 48},
                    Product{{QUERN_F8_128, q4, QUERN_F8_128}, 384, 32, false}));

}  // namespace
}  // namespace quern::cuda
