// Products of 33 to 64 rows by warpgroups (warpgroup_rows.cuh) over a card in plain C++ (emulated_card.hpp). Clusters have one block here.
#define EMULATED_BULK_COPIES
#include <warpgroup_rows.cuh>

#include "block_matrix.hpp"
#include "ops/mixed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

namespace quern::cuda {
namespace {

constexpr int blocks = 5, k = blocks * 256, columns = 64;  // more blocks than stages

/// Shared memory of a block, where addresses of matrices start.
char* block_memory() {
  constexpr std::size_t start = 1 << 18;
  static const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(start, start), &std::free);
  return static_cast<char*>(memory.get());
}
template <int F, int G>
void multiply(MixedParams p) {
  warpgroup_rows<F, G>(p, block_memory());
}
template <int F, int G>
void run(const MixedParams& p) {
  char* const memory = block_memory();
  emulated_shared = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(memory) & ~std::uintptr_t{0xffffffff});
  GroupProduct<64, true, false>::emulated_group_memory = memory;
  run_emulated(multiply<F, G>, 1, 1, p, warpgroup_threads);
}

/// Activations as operands lie in memory: small whole numbers, exact in f16.
struct Columns {
  Columns() : bytes(static_cast<std::uint64_t>(operand_bytes(columns, k))) {
    for (int column = 0; column < columns; ++column)
      for (int i = 0; i < k; ++i)
        reinterpret_cast<u16*>(bytes.data() + operand_row(column, columns, blocks) + i / 256 * columns * OPERAND_PITCH +
                               swizzled_chunk(i % 256 / 8))[i % 8] = to_half(at(column, i));
  }
  static float at(int column, int i) { return static_cast<float>((column * 131 + i * 7919) % 17 - 8); }
  Bytes bytes;
};

MixedParams params_of(const Columns& x, int rows, bool wide) {
  MixedParams p{};
  p.k = k;
  p.t = rows;
  p.x = reinterpret_cast<Address>(x.bytes.words.data());
  p.columns = columns;
  p.alpha = 0.5f;
  p.ways = 1;
  p.ring = kquants_ring_bytes(wide);
  p.span = warpgroup_stages(wide);
  return p;
}
/// Numbers are off by three roundings to f16 of at most twice the largest weight (half_formats_test.cpp); k products are summed in f32.
void expect_near(double y, const BlockMatrix& w, int output, int row, double added) {
  double sum = 0, size = 0, most = 0;
  for (int i = 0; i < k; ++i) {
    const double weight = w.numbers[static_cast<std::size_t>(output * k + i)], v = static_cast<double>(Columns::at(row, i));
    sum += weight * v, size += std::fabs(v), most = std::max(most, std::fabs(weight));
  }
  EXPECT_NEAR(y, 0.5 * sum + added, size * most * (6 * 0x1p-11 + k * 0x1p-24) + 0x1p-20) << "row " << row << ", output " << output;
}

template <int F>
void expect_products(int rows_of_w, int rows) {
  constexpr auto dtype = static_cast<quern_dtype>(F);
  SCOPED_TRACE(sdk::concat("dtype ", dtype));
  BlockMatrix w(dtype, {rows_of_w, k}, sdk::gains_by_planes(dtype), "weights");
  const Columns x;
  std::vector<float> y(static_cast<std::size_t>(rows * rows_of_w), NAN), residual(y.size());
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 29) - 14;
  MixedParams p = params_of(x, rows, Ring<F>::wide);
  p.parts = 1;
  p.part[0] = {blocks_of(w.tensor), reinterpret_cast<Address>(y.data()), 0, rows_of_w, rows_of_w};
  p.residual = reinterpret_cast<Address>(residual.data());
  run<F, F>(p);
  for (int row = 0; row < rows; ++row)
    for (int output = 0; output < rows_of_w; ++output) {
      const auto at = static_cast<std::size_t>(row * rows_of_w + output);
      expect_near(static_cast<double>(y[at]), w, output, row, static_cast<double>(residual[at]));
    }
}

TEST(WarpgroupRows, OfFormatsOfFewBitsAndOfMany) {
  expect_products<Q4_K>(250, 33);  // the last tile of 16 is cut
  expect_products<Q6_K>(256, 64);
  expect_products<Q8_0>(64, 48);  // three warpgroups have no rows
  expect_products<Q4_Z128>(256, 40);
}

/// Two formats of one operand: each warpgroup has one of them.
TEST(WarpgroupRows, OfPartsInTwoFormats) {
  BlockMatrix first(QUERN_Q4_K, {128, k}, false, "first"), second(QUERN_Q6_K, {80, k}, sdk::gains_by_planes(QUERN_Q6_K), "second");
  const Columns x;
  constexpr int rows = 34, row = 128 + 80;
  std::vector<float> y(rows * row, NAN);
  MixedParams p = params_of(x, rows, false);
  p.parts = 2;
  p.part[0] = {blocks_of(first.tensor), reinterpret_cast<Address>(y.data()), 0, 128, row};
  p.part[1] = {blocks_of(second.tensor), reinterpret_cast<Address>(y.data() + 128), 0, 80, row};
  run<QUERN_Q4_K, QUERN_Q6_K>(p);
  for (int r = 0; r < rows; ++r)
    for (int output = 0; output < row; ++output)
      expect_near(static_cast<double>(y[static_cast<std::size_t>(r * row + output)]), output < 128 ? first : second, output % 128, r, 0);
}

}  // namespace
}  // namespace quern::cuda
