// Products with weights whose blocks lie along the outputs, by the kernels themselves over a card in plain C++ (emulated_card.hpp). Weights are
// those of the conformance suite, decoded by its own reader.
#include <gemm_mma.cu>
#include <matmul_any.cu>

#include "block_matrix.hpp"

#include <gtest/gtest.h>

namespace quern::cuda {
namespace {

/// [k, n].
struct TurnedWeights : BlockMatrix {
  TurnedWeights(quern_dtype dtype, std::int64_t k, std::int64_t n, bool planes) : BlockMatrix(dtype, {k, n}, planes, "turned") {}
};

struct Rows {
  Rows(quern_dtype type, std::int64_t rows, std::int64_t columns, std::int64_t filled, const char* name)
      : dtype(static_cast<int>(type)), bytes(static_cast<std::uint64_t>(rows * columns) * sdk::element_size(type).bytes), length(columns) {
    const conformance::CounterRandom random = conformance::CounterRandom::of(name);
    for (std::int64_t i = 0; i < rows * columns; ++i)
      store_float(bytes.data(), dtype, i, i % columns < filled ? static_cast<float>(random.gaussian(static_cast<std::uint64_t>(i))) : 0.0f);
  }
  double at(std::int64_t row, std::int64_t column) { return static_cast<double>(load_float(bytes.data(), dtype, row * length + column)); }

  int dtype;
  Bytes bytes;
  std::int64_t length;
};

/// Half a step of what operands are rounded to, of their size.
constexpr double bf16_step = 0x1p-8, tf32_step = 0x1p-11;

struct Sizes {
  std::int64_t m, n, k;
};

/// y = 0.5 a b + bias - 1.5 c over c, by `launch`. Each operand is off by `step`, so that a product is off by twice that and a little. Sums
/// of k products in f32 are off by k 2^-24, and the three terms of the end by 3 of it.
template <class Launch>
void expect_product(quern_dtype weights, bool planes, const Sizes& s, std::int64_t whole_k, quern_dtype type, double step,
                    const Launch& launch) {
  SCOPED_TRACE(sdk::concat("dtype ", weights, ", planes ", planes, ", ", s.m, " x ", s.n, " x ", s.k));
  TurnedWeights b(weights, s.k, s.n, planes);
  Rows a(type, s.m, whole_k, s.k, "a"), y(QUERN_F32, s.m + 1, s.n, s.n, "c"), bias(QUERN_F32, 1, s.n, s.n, "bias"), c = y;
  launch(b, a, y, bias);
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row <= s.m; ++row)
    for (std::int64_t column = 0; column < s.n; ++column) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < s.k && row < s.m; ++k) {
        const double product = a.at(row, k) * b.numbers[static_cast<std::size_t>(k * s.n + column)];
        sum += product, size += std::fabs(product);
      }
      const double end = row < s.m ? bias.at(0, column) - 1.5 * c.at(row, column) : c.at(row, column);  // the row behind y stays
      const double terms = size + std::fabs(bias.at(0, column)) + 2 * std::fabs(c.at(row, column));
      const double bound = row < s.m ? 0.5 * size * (2.01 * step + static_cast<double>(s.k) * 0x1p-24) + terms * 0x3p-24 : 0;
      wrong += std::fabs(y.at(row, column) - (0.5 * sum + end)) <= bound ? 0 : 1;
    }
  EXPECT_EQ(wrong, 0);
}

void expect_gemm(void (*kernel)(GemmParams), std::int64_t tile, double step, quern_dtype weights, bool planes, const Sizes& s,
                 quern_dtype type) {
  expect_product(weights, planes, s, (s.k + 31) / 32 * 32, type, step, [&](TurnedWeights& b, Rows& a, Rows& y, Rows& bias) {
    const GemmParams p{blocks_of(b.tensor),
                       a.bytes.address(),
                       bias.bytes.address(),
                       y.bytes.address(),
                       y.bytes.address(),
                       a.dtype,
                       y.dtype,
                       y.dtype,
                       static_cast<int>(s.m),
                       static_cast<int>(s.n),
                       static_cast<int>(a.length),
                       static_cast<int>(s.k),
                       0.5f,
                       -1.5f,
                       1,
                       0};
    run_emulated(kernel, static_cast<u32>((s.n + 127) / 128), static_cast<u32>((s.m + tile - 1) / tile), p);
  });
}

constexpr quern_dtype formats[] = {QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};

TEST(TurnedBlocks, EachFormatMeetsAFewRowsInBf16) {
  for (const quern_dtype format : formats)
    expect_gemm(gemm_mma_turned_32, 32, bf16_step, format, sdk::gains_by_planes(format), {9, 256, 17}, QUERN_F32);
}
TEST(TurnedBlocks, ManyRowsInBf16) {
  expect_gemm(gemm_mma_turned_128, 128, bf16_step, QUERN_Q8_0, false, {130, 96, 40}, QUERN_BF16);
  expect_gemm(gemm_mma_turned_128, 128, bf16_step, QUERN_Q4_K, false, {65, 256, 31}, QUERN_F16);
}
TEST(TurnedBlocks, WhereF16AloneIsAllowed) {
  expect_gemm(gemm_tf32_turned, 128, tf32_step, QUERN_Q5_1, true, {130, 96, 17}, QUERN_F16);
  expect_gemm(gemm_tf32_turned, 128, tf32_step, QUERN_Q6_K, false, {40, 256, 33}, QUERN_F32);
  expect_gemm(gemm_tf32_turned, 128, tf32_step, QUERN_Q4_0, true, {9, 32, 1}, QUERN_BF16);
}
TEST(TurnedBlocks, InF32) {
  for (const quern_dtype format : formats)
    for (const bool planes : {false, true}) {
      if (planes && !sdk::gains_by_planes(format)) continue;
      expect_product(format, planes, {3, 256, 17}, 17, QUERN_F32, 0, [](TurnedWeights& b, Rows& a, Rows& y, Rows& bias) {
        Tensor start = b.tensor;
        if (!start.packed_layout) start.data = 0;
        MatmulAnyParams p{};
        p.batches = {1, 1, {1}, 0};
        p.a = {a.bytes.address(), a.dtype, 4, {}};
        p.a_row = a.length * 4;
        p.b = {b.tensor.data, static_cast<int>(b.tensor.dtype), b.tensor.strides[0], {}};
        p.b_row = b.tensor.strides[1];
        p.c = p.y = {y.bytes.address(), y.dtype, 4, {}};
        p.c_row = p.y_row = y.length * 4;
        p.pieces = blocks_of(start);
        p.b_blocks = p.b_turned = 1;
        p.b_planes = b.tensor.packed_layout;
        p.bias = bias.bytes.address();
        p.m = 3;
        p.n = y.length;
        p.k = a.length;
        p.alpha = 0.5f;
        p.beta = -1.5f;
        run_emulated(matmul_any, static_cast<u32>((p.n + product_tile - 1) / product_tile), 1, p);
      });
    }
}

}  // namespace
}  // namespace quern::cuda
