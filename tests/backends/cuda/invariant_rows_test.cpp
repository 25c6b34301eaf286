// Products of few rows over a card in plain C++ (emulated_card.hpp): a row has the same bits from the kernel of one row (stream.cu) and from that of
// more (tiles.cu), wherever it stands among them.
#define EMULATED_BULK_COPIES
#include <stream.cu>
#undef FOR_FORMAT
#include <tiles.cu>

#include "block_matrix.hpp"
#include "ops/matmul.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <random>
#include <string_view>

namespace quern::cuda {
namespace {

constexpr TilesCard card{2, 232448};

/// Rows of int8 activations, as quantise.cu lays them out, with the sums of squares of a norm that is still to come.
struct Rows {
  Rows(std::int64_t rows, std::int64_t k) : codes(rows * k), meta(rows * k / 4), sums(rows * k / 8), k(k) {
    std::mt19937 random(static_cast<unsigned>(k));
    for (std::int64_t group = 0; group < rows * k / 32; ++group) {
      int sum = 0;
      for (std::int64_t i = 0; i < 32; ++i) {
        const int code = static_cast<int>(random() % 255) - 127;
        codes.data()[group * 32 + i] = static_cast<std::byte>(code);
        sum += code;
      }
      const float scale = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000, -9);
      reinterpret_cast<float2*>(meta.data())[group] = {scale, static_cast<float>(sum)};
      reinterpret_cast<float*>(sums.data())[group] = 1.0f + static_cast<float>(random() % 1000) / 999;
    }
  }
  /// `count` of them from `first` on.
  Activations from(std::int64_t first) {
    Activations x{};
    x.codes = codes.address() + static_cast<Address>(first * k);
    x.meta = meta.address() + static_cast<Address>(first * k / 4);
    x.sums = sums.address() + static_cast<Address>(first * k / 8);
    x.sum_count = static_cast<int>(k / 32);
    x.epsilon = 1e-5f;
    return x;
  }
  double value(std::int64_t row, std::int64_t i) {
    return static_cast<double>(static_cast<std::int8_t>(codes.data()[row * k + i])) *
           static_cast<double>(reinterpret_cast<float2*>(meta.data())[(row * k + i) / 32].x);
  }
  float square(std::int64_t row, std::int64_t group) { return reinterpret_cast<float*>(sums.data())[row * k / 32 + group]; }
  Bytes codes, meta, sums;
  std::int64_t k;
};

void run(const GemvParams& g) {
  const auto l = tiles_launch(g, true, card);
  ASSERT_TRUE(l);
  ASSERT_EQ(l->stream, g.t == 1);
  const auto kernel = !l->stream ? g.t == 1 ? tiles_1 : tiles_8 : g.out.codes != 0 ? stream_quantise_1 : stream_1;
  const u32 blocks = static_cast<u32>(l->grid), pieces = static_cast<u32>((g.t + most_gemv_rows - 1) / most_gemv_rows);
  if (l->stream) run_emulated(kernel, blocks, 1, l->p, 576);
  else run_emulated(kernel, pieces, blocks, l->p, 288);
}

struct Product {
  quern_dtype dtype;
  std::int64_t k, n;
  bool planes;
  std::int64_t rows;  // one more than whole pieces of eight
  bool glu = false, quantises = false;
};

void PrintTo(const Product& p, std::ostream* out) {
  *out << sdk::dtype_name(p.dtype) << ", k " << p.k << ", n " << p.n << ", rows " << p.rows << (p.glu ? ", glu" : "")
       << (p.quantises ? ", quantises" : "");
}

/// What `t` rows from row `first` on become: results, and what they are quantised to.
struct Made {
  std::vector<float> y;
  Bytes codes, meta, sums;
};

Made make(const Product& what, BlockMatrix& w, BlockMatrix& up, Rows& x, std::vector<float>& beside, std::int64_t first, std::int64_t t) {
  Made made{std::vector<float>(static_cast<std::size_t>(t * what.n), -77.0f), Bytes(t * what.n), Bytes(t * what.n / 4),
            Bytes(t * what.n / 8)};
  GemvParams g{};
  g.part[0] = {blocks_of(w.tensor), reinterpret_cast<Address>(made.y.data()), 0, static_cast<int>(what.n)};
  g.parts = what.glu ? 2 : 1;
  if (what.glu) g.part[1] = {blocks_of(up.tensor), 0, 0, static_cast<int>(what.n)};
  g.glu = what.glu;
  g.activation = what.glu ? act_silu : act_none;
  g.k = static_cast<int>(what.k);
  g.t = static_cast<int>(t);
  g.x = x.from(first);
  if (!what.glu) g.residual = reinterpret_cast<Address>(beside.data() + first * what.n);
  if (what.quantises) {
    g.out.codes = made.codes.address();
    g.out.meta = made.meta.address();
    g.out.sums = made.sums.address();
    g.out.sum_count = static_cast<int>(what.n / 32);
    g.out_weight = reinterpret_cast<Address>(beside.data());
  }
  run(g);
  return made;
}

class InvariantRows : public testing::TestWithParam<Product> {};

TEST_P(InvariantRows, HaveTheBitsThatEachHasAlone) {
  const Product what = GetParam();
  const std::int64_t rows = what.rows;
  BlockMatrix w(what.dtype, {what.n, what.k}, what.planes, "weights"), up(what.dtype, {what.n, what.k}, what.planes, "up");
  Rows x(rows, what.k);
  std::vector<float> beside(static_cast<std::size_t>(rows * what.n));
  for (std::size_t i = 0; i < beside.size(); ++i) beside[i] = std::sin(static_cast<float>(i));
  Made together[] = {make(what, w, up, x, beside, 0, 2), make(what, w, up, x, beside, 0, rows - 1), make(what, w, up, x, beside, 0, rows)};
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, rows - 2, rows - 1}) {
    Made alone = make(what, w, up, x, beside, row, 1);
    for (Made& others : together) {
      const auto bytes = [&](auto& of, std::int64_t size) {
        return std::string_view(reinterpret_cast<char*>(of.data()) + row * size, size);
      };
      const auto first = [&](auto& of, std::int64_t size) { return std::string_view(reinterpret_cast<char*>(of.data()), size); };
      if (row >= std::ssize(others.y) / what.n) continue;
      EXPECT_EQ(bytes(others.y, what.n * 4), first(alone.y, what.n * 4)) << "row " << row;
      EXPECT_EQ(bytes(others.codes, what.n), first(alone.codes, what.n)) << "row " << row;
      EXPECT_EQ(bytes(others.meta, what.n / 4), first(alone.meta, what.n / 4)) << "row " << row;
      EXPECT_EQ(bytes(others.sums, what.n / 8), first(alone.sums, what.n / 8)) << "row " << row;
    }
    if (what.glu) continue;
    for (std::int64_t n = 0; n < what.n; ++n) {
      double sum = 0, size = 0, squares = 0;
      for (std::int64_t i = 0; i < what.k; ++i) {
        const double product = w.numbers[n * what.k + i] * x.value(row, i);
        sum += product, size += std::abs(product);
      }
      for (std::int64_t group = 0; group < what.k / 32; ++group) squares += static_cast<double>(x.square(row, group));
      const double factor = 1 / std::sqrt(squares / static_cast<double>(what.k) + 1e-5);
      // Of 32 products at most six roundings, each of 2^-24 of the sum so far or of a minimum, which is as large as the codes' part.
      ASSERT_NEAR(alone.y[n], sum * factor + beside[row * what.n + n],
                  12 * static_cast<double>(what.k) / 32 * 0x1p-24 * size * factor + 1e-6)
          << "row " << row << ", output " << n;
    }
  }
}

TEST(InvariantRows, WhatHasRoomForOneRowAloneHasNoKernelOfItsOwn) {
  BlockMatrix w(QUERN_Q4_K, {16, 28672}, false, "weights");
  GemvParams g{};
  g.part[0] = {blocks_of(w.tensor), 0, 0, 16};
  g.parts = 1;
  g.k = 28672;
  g.t = 1;
  EXPECT_FALSE(tiles_launch(g, true, card));
  const auto alone = tiles_launch(g, false, card);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->stream);
}

// Rows of whole tiles and not, k with a part of a turn of a warp, long rows whose sums are made in shares, and ends.
INSTANTIATE_TEST_SUITE_P(Formats, InvariantRows,
                         testing::Values(Product{QUERN_Q4_0, 1088, 40, true, 9}, Product{QUERN_Q4_1, 1088, 24, true, 9},
                                         Product{QUERN_Q5_0, 2112, 24, true, 9}, Product{QUERN_Q5_1, 64, 40, true, 9},
                                         Product{QUERN_Q8_0, 1088, 40, true, 9}, Product{QUERN_Q8_0, 5120, 24, true, 9},
                                         Product{QUERN_Q4_K, 2304, 40, false, 33}, Product{QUERN_Q5_K, 512, 24, false, 9},
                                         Product{QUERN_Q6_K, 4352, 24, true, 9}, Product{QUERN_Q4_K, 8448, 32, false, 9, true, true},
                                         Product{QUERN_Q6_K, 2304, 32, true, 9, false, true}));

}  // namespace
}  // namespace quern::cuda
