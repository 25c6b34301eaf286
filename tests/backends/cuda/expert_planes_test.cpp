// Products with chosen experts whose matrices lie in planes or in rows, by the kernels that decode them, over a card in plain C++
// (emulated_card.hpp); the host's own function says where the matrices lie.
#include <experts.cu>
#include <experts_mma.cu>

#include "ops/expert_pairs.hpp"

#include "block_matrix.hpp"

#include <gtest/gtest.h>

namespace quern::cuda {
namespace {

constexpr int experts = 3, n = 5, tokens = 4, used = 2, pairs = tokens * used;
/// The expert of each pair, and the pairs in the order of their experts: tiles as expert_lists and expert_tiles make them.
constexpr int chosen[pairs] = {2, 0, 1, 2, 2, 1, 0, 2}, order[pairs] = {1, 6, 2, 5, 0, 3, 4, 7}, start[experts + 1] = {0, 2, 4, 8},
              tiles[experts + 1] = {0, 1, 2, 3};

template <class T>
Address address_of(const T* data) {
  return reinterpret_cast<Address>(data);
}
/// Rows of tokens through `b` into y, one row a pair.
ExpertParams params_of(const BlockMatrix& b, const std::vector<float>& x, const std::vector<float>& y, std::int64_t k) {
  ExpertParams p{};
  p.a = {address_of(x.data()), F32, 4, {k * 4, 0}};
  p.y = {address_of(y.data()), F32, 4, {used * n * 4, n * 4}};
  p.id = {address_of(chosen), I32, 4, {used * 4}};
  const ExpertMatrices matrices = matrices_of(b.tensor);
  p.b = matrices.of;
  p.b_blocks = matrices.blocks;
  p.pieces = matrices.pieces;
  p.row_sixteens = matrices.row_sixteens;
  p.tokens = tokens, p.used = used, p.experts = experts, p.n = n, p.k = k;
  p.tile_pairs = expert_pairs;
  p.order = address_of(order), p.start = address_of(start), p.tiles = address_of(tiles);
  return p;
}
std::vector<float> rows_of_tokens(std::int64_t k) {
  std::vector<float> x(static_cast<std::size_t>(tokens * k));
  const conformance::CounterRandom random = conformance::CounterRandom::of("tokens");
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.gaussian(i));
  return x;
}
/// What a pair's output should be, and the sum of sizes.
struct Exact {
  double sum = 0, size = 0;
  Exact(const BlockMatrix& b, const std::vector<float>& x, std::int64_t k, int pair, int column) {
    for (std::int64_t i = 0; i < k; ++i) {
      const double product = static_cast<double>(x[static_cast<std::size_t>(pair / used * k + i)]) *
                             b.numbers[static_cast<std::size_t>((chosen[pair] * n + column) * k + i)];
      sum += product, size += std::fabs(product);
    }
  }
};

/// Every product is off by `step` of its size, and sums of k of them in f32 by k 2^-24.
void expect_products(void (*kernel)(ExpertParams), quern_dtype dtype, bool planes, std::int64_t k, double step) {
  SCOPED_TRACE(sdk::concat("dtype ", dtype, planes ? " in planes" : " in rows", ", k ", k));
  BlockMatrix b(dtype, {experts, n, k}, planes, "experts");
  const std::vector<float> x = rows_of_tokens(k), y(pairs * n);
  run_emulated(kernel, 1, kernel == matmul_id_few ? pairs : experts, params_of(b, x, y, k));
  for (int pair = 0; pair < pairs; ++pair)
    for (int column = 0; column < n; ++column) {
      const Exact exact(b, x, k, pair, column);
      EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(pair * n + column)]), exact.sum,
                  exact.size * (step + static_cast<double>(k + 4) * 0x1p-24))
          << "pair " << pair << ", column " << column;
    }
}

/// Gate times up; the product has the errors of both.
void expect_gated(quern_dtype dtype, bool planes, std::int64_t k) {
  SCOPED_TRACE(sdk::concat("dtype ", dtype, planes ? " in planes" : " in rows", ", k ", k));
  BlockMatrix gate(dtype, {experts, n, k}, planes, "gate"), up(dtype, {experts, n, k}, planes, "up");
  const std::vector<float> x = rows_of_tokens(k), y(pairs * n);
  ExpertEndParams p{};
  p.of = params_of(gate, x, y, k);
  const ExpertMatrices ups = matrices_of(up.tensor);
  p.up = ups.of;
  p.up_blocks = ups.blocks;
  p.up_pieces = ups.pieces;
  p.up_row_sixteens = ups.row_sixteens;
  p.activation = act_none;
  run_emulated(matmul_id_glu_few, 1, pairs, p);
  for (int pair = 0; pair < pairs; ++pair)
    for (int column = 0; column < n; ++column) {
      const Exact a(gate, x, k, pair, column), b(up, x, k, pair, column);
      EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(pair * n + column)]), a.sum * b.sum,
                  2 * a.size * b.size * static_cast<double>(k + 4) * 0x1p-24)
          << "pair " << pair << ", column " << column;
    }
}

constexpr quern_dtype formats[] = {QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K};
std::int64_t length_of(quern_dtype format) { return sdk::block_fields(format).elements == 256 ? 256 : 96; }

TEST(ExpertPlanes, InF32) {
  for (const quern_dtype format : formats)
    for (const bool planes : {false, true})
      if (!planes || sdk::gains_by_planes(format)) expect_products(matmul_id, format, planes, length_of(format), 0);
}
TEST(ExpertPlanes, InBf16) {  // both operands are off by half a step of 2^-8 of them
  for (const quern_dtype format : formats)
    for (const bool planes : {false, true})
      if (!planes || sdk::gains_by_planes(format)) expect_products(matmul_id_blocks, format, planes, length_of(format), 2.01 * 0x1p-9);
}
TEST(ExpertPlanes, OfFewPairs) {
  for (const quern_dtype format : formats)
    for (const bool planes : {false, true})
      if (!planes || sdk::gains_by_planes(format)) expect_products(matmul_id_few, format, planes, length_of(format), 0);
}

TEST(ExpertPlanes, GateAndUpOfFewPairs) {
  for (const quern_dtype format : formats)
    for (const bool planes : {false, true})
      if (!planes || sdk::gains_by_planes(format)) expect_gated(format, planes, length_of(format));
}

}  // namespace
}  // namespace quern::cuda
