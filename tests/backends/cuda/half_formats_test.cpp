// Block formats as operands of the matrix units (kquants_formats.cuh), by the kernels' own functions over a card in plain C++ (emulated_card.hpp).
// Weights are those of the conformance suite, decoded by its own reader.
#include <half_numbers.cuh>
#include <operand.cuh>
#include <row_pieces.hpp>

#include "block_matrix.hpp"

#include <gtest/gtest.h>

namespace quern::cuda {
namespace {

constexpr int rows = 13, blocks = 2, columns = 16;  // a tile is of 16 rows

/// [rows, k], as the kernels read it: in planes, or as it is where those gain nothing.
struct Weights : BlockMatrix {
  Weights(quern_dtype dtype, const char* name) : BlockMatrix(dtype, {rows, blocks * 256}, sdk::gains_by_planes(dtype), name) {}
  double at(int row, int k) const { return numbers[static_cast<std::size_t>(row * blocks * 256 + k)]; }
};

/// Sums of a tile, by what the first warp of a block does; those of a lane's rows and columns as kernels store them.
struct TileParams {
  Blocks w, w2;
  const float* x;       // [columns][k]
  float* sums;          // [16][columns]
  int first, glu, one;  // one: the operand has one column, which all eight of the matrix units read
};
template <int F, int NT>
void tile(TileParams p) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= 32) return;
  const Rows of{p.w, p.w2, std::min(p.first, rows - 1), rows - 1, blocks, p.glu != 0, 0};
  const Ring<F> ring(of);
  const u32 operand = Ring<F>::bytes;
  float tot[NT][4] = {};
  for (int block = 0; block < blocks; ++block) {
    const int there = p.one != 0 ? 1 : columns;
    for (int column = 0; column < there; ++column)
      for (int half = 0; half < 2; ++half) {
        const float* v = p.x + column * blocks * 256 + block * 256 + half * 128 + lane * 4;
        store_operand_four(reinterpret_cast<char*>(emulated_shared + operand) + column * OPERAND_PITCH, there, half * 128 + lane * 4,
                           {v[0], v[1], v[2], v[3]}, true, 0);
      }
    ring.fetch(of, 0, block);
    __syncwarp();
    block_products<NT>(ring, of, block, 0, operand, p.one != 0 ? 0 : OPERAND_PITCH, tot);
    __syncwarp();
  }
  settle_columns<Ring<F>, NT>(tot);
  for (int n = 0; n < NT; ++n)
    for (int i = 0; i < 4; ++i) p.sums[(row_of(lane >> 2) + (i >> 1) * 8) * columns + n * 8 + 2 * (lane & 3) + (i & 1)] = tot[n][i];
}

/// Activations are small whole numbers, whose means are exact. So what is left are roundings of A, once in f16 for Q6_K and numbers of a table, and of
/// sums of k products and minimums in f32.
template <int F, int NT>
void expect_tiles(bool glu, bool one = false) {
  constexpr auto dtype = static_cast<quern_dtype>(F);
  SCOPED_TRACE(sdk::concat("dtype ", dtype, glu ? ", gate and up" : ""));
  Weights w(dtype, "gate"), w2(dtype, "up");
  ASSERT_TRUE(is_half_format(w.tensor) || is_group_format(w.tensor));
  std::vector<float> x(columns * blocks * 256);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7919 % 17) - 8);
  Bytes shared(Ring<F>::bytes + columns * OPERAND_PITCH);
  emulated_shared = shared.data();
  for (int first = 0; first < rows; first += glu ? 8 : 16) {
    float sums[16 * columns];
    run_emulated(tile<F, NT>, 1, 1, TileParams{blocks_of(w.tensor), blocks_of(w2.tensor), x.data(), sums, first, glu ? 1 : 0, one ? 1 : 0});
    for (int r = 0; r < 16; ++r) {
      const int row = first + (glu ? r & 7 : r);
      if (row >= rows) continue;
      for (int column = 0; column < (one ? 1 : NT * 8); ++column) {
        double sum = 0, size = 0;
        for (int k = 0; k < blocks * 256; ++k) {
          const double weight = (glu && r >= 8 ? w2 : w).at(row, k),
                       product = weight * static_cast<double>(x[static_cast<std::size_t>(column * blocks * 256 + k)]);
          sum += product, size += std::fabs(product);
        }
        const double step = dtype == QUERN_Q6_K || dtype == QUERN_NF4_64 || dtype == QUERN_FP4_64 ? 0x1p-11 : 0;
        // A minimum and its code cancel: each is up to some times their difference.
        EXPECT_NEAR(static_cast<double>(sums[r * columns + column]), sum, size * (step + 4 * blocks * 256 * 0x1p-24))
            << "row " << row << ", column " << column;
      }
    }
  }
}

/// The weights of a tile as the first warp of a block makes them for products of warpgroups: numbers times the power of two of their block.
struct NumbersParams {
  Blocks w, w2;
  float* weights;  // [16][k]
  int first, glu;
};
template <int F>
void numbers(NumbersParams p) {
  const int lane = static_cast<int>(threadIdx.x), g = lane >> 2, t = lane & 3;
  if (lane >= 32) return;
  const Rows of{p.w, p.w2, std::min(p.first, rows - 1), rows - 1, blocks, p.glu != 0, 0};
  const Ring<F> ring(of);
  for (int block = 0; block < blocks; ++block) {
    ring.fetch(of, 0, block);
    __syncwarp();
    const HalfNumbers<F> numbers(ring, 0, of, block);
    for (int unit = 0; unit < 8; ++unit) {
      u32 a[2][4];
      numbers.unit(unit, a);
      for (int i = 0; i < 2; ++i)
        for (int e = 0; e < 8; ++e) {
          const int row = g + e / 2 % 2 * 8, k = block * 256 + HalfNumbers<F>::step_of(unit, i) * 16 + e / 4 * 8 + 2 * t + e % 2;
          p.weights[row * blocks * 256 + k] = from_half(static_cast<u16>(a[i][e / 2] >> e % 2 * 16)) * numbers.base[row / 8];
        }
    }
    __syncwarp();
  }
}

/// Each number is off by at most three roundings to f16: of scale, minimum, and itself. The terms of a number are at most twice the largest weight of
/// its block, which has codes of all sizes.
template <int F>
void expect_numbers(bool glu) {
  constexpr auto dtype = static_cast<quern_dtype>(F);
  SCOPED_TRACE(sdk::concat("dtype ", dtype, glu ? ", gate and up" : ""));
  Weights w(dtype, "gate"), w2(dtype, "up");
  Bytes shared(Ring<F>::bytes);
  emulated_shared = shared.data();
  std::vector<float> made(16 * blocks * 256);
  run_emulated(numbers<F>, 1, 1, NumbersParams{blocks_of(w.tensor), blocks_of(w2.tensor), made.data(), 0, glu ? 1 : 0});
  for (int r = 0; r < (glu ? 16 : rows); ++r)
    for (int block = 0; block < blocks; ++block) {
      const auto weight = [&](int k) { return (glu && r >= 8 ? w2 : w).at(glu ? r & 7 : r, block * 256 + k); };
      double most = 0;
      for (int k = 0; k < 256; ++k) most = std::max(most, std::fabs(weight(k)));
      for (int k = 0; k < 256; ++k)
        EXPECT_NEAR(static_cast<double>(made[static_cast<std::size_t>((r * blocks + block) * 256 + k)]), weight(k), 6 * 0x1p-11 * most)
            << "row " << r << ", element " << block * 256 + k;
    }
}

/// The numbers of kernels, which NVRTC compiles without the SDK, against the descriptors of quern_formats.h.
template <int F>
void expect_layout() {
  const auto dtype = static_cast<quern_dtype>(F);
  const sdk::BlockFields& fields = sdk::block_fields(dtype);
  const bool planes = sdk::gains_by_planes(dtype);
  const RowPieces pieces = row_pieces(F);
  EXPECT_EQ(static_cast<std::uint32_t>(pieces.elements), fields.elements) << F;
  for (std::size_t f = 0; f < 4; ++f)
    EXPECT_EQ(static_cast<std::uint32_t>(pieces.bytes[f]), planes   ? fields.bytes[f]
                                                           : f == 0 ? fields.block_bytes
                                                                    : 0)
        << F << " piece " << f;
}

TEST(BlockLayouts, OfKernelsAreThoseOfQuernFormats) {
#define QUERN_EXPECT_LAYOUT(FORMAT) expect_layout<FORMAT>();
  QUERN_CUDA_FAST_FORMATS(QUERN_EXPECT_LAYOUT, QUERN_EXPECT_LAYOUT)
#undef QUERN_EXPECT_LAYOUT
}

TEST(HalfFormats, TilesOfEachFormat) {
#define QUERN_EXPECT_TILES(name, FORMAT) expect_tiles<FORMAT, 2>(false);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_TILES)
  QUERN_CUDA_GROUP_FORMATS(QUERN_EXPECT_TILES)
#undef QUERN_EXPECT_TILES
}
TEST(HalfFormats, NumbersOfEachFormat) {
#define QUERN_EXPECT_NUMBERS(name, FORMAT) expect_numbers<FORMAT>(false), expect_numbers<FORMAT>(true);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_NUMBERS)
  QUERN_CUDA_GROUP_FORMATS(QUERN_EXPECT_NUMBERS)
#undef QUERN_EXPECT_NUMBERS
}
TEST(HalfFormats, TilesOfOneRow) {
#define QUERN_EXPECT_TILES(name, FORMAT) expect_tiles<FORMAT, 1>(false, true);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_TILES)
  QUERN_CUDA_GROUP_FORMATS(QUERN_EXPECT_TILES)
#undef QUERN_EXPECT_TILES
}
TEST(HalfFormats, TilesOfGateAndUp) {
#define QUERN_EXPECT_TILES(name, FORMAT) expect_tiles<FORMAT, 1>(true);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_TILES)
  QUERN_CUDA_GROUP_FORMATS(QUERN_EXPECT_TILES)
#undef QUERN_EXPECT_TILES
}

}  // namespace
}  // namespace quern::cuda
