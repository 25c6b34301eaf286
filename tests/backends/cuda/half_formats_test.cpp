// Block formats as operands of the matrix units (kquants_formats.cuh), by the kernels' own functions over a card in plain C++ (emulated_card.hpp).
// Weights are those of the conformance suite, decoded by its own reader.
#include <kquants_formats.cuh>
#include <operand.cuh>

#include "tensor.hpp"

#include "data/block_format.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quern::cuda {
namespace {

constexpr int rows = 21, blocks = 2, columns = 16;  // the second tile has five rows of its own

/// Bytes at a multiple of 16, as a card's memory has them.
struct Bytes {
  explicit Bytes(std::uint64_t size) : words(size / 16 + 1) {}
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(words.data()); }
  Address address() noexcept { return reinterpret_cast<Address>(words.data()); }
  std::vector<uint4> words;
};

/// [rows, k] of random blocks, as the kernels read them: in planes, or as they are where those gain nothing.
struct Weights {
  Weights(quern_dtype dtype, const char* name)
      : layout{dtype, rows, blocks * 256}, bytes(layout.bytes() + layout.source_bytes()), numbers(rows * blocks * 256) {
    const conformance::BlockFormat& format = *conformance::BlockFormat::find(dtype);
    Bytes source(layout.source_bytes());
    format.fill(source.data(), static_cast<std::int64_t>(layout.blocks()), conformance::BlockData::usual,
                conformance::CounterRandom::of(name));
    format.read(source.data(), 0, rows * blocks * 256, numbers.data());
    tensor.packed_layout = sdk::gains_by_planes(dtype);
    const sdk::BlockFields& fields = sdk::block_fields(dtype);
    if (!tensor.packed_layout) std::memcpy(bytes.data(), source.data(), layout.source_bytes());
    for (std::uint64_t block = 0; tensor.packed_layout && block < layout.blocks(); ++block)
      for (int f = 0; f < sdk::BlockFields::count; ++f)
        std::memcpy(bytes.data() + layout.plane(f) + block * fields.bytes[f], source.data() + block * fields.block_bytes + fields.offset[f],
                    fields.bytes[f]);
    tensor.data = bytes.address();
    tensor.dtype = dtype;
    tensor.rank = 2;
    tensor.dims[0] = rows, tensor.dims[1] = blocks * 256;
    tensor.strides[1] = fields.block_bytes;
    tensor.strides[0] = static_cast<std::int64_t>(layout.source_bytes()) / rows;
  }
  double at(int row, int k) const { return numbers[static_cast<std::size_t>(row * blocks * 256 + k)]; }

  sdk::PlaneLayout layout;
  Bytes bytes;
  std::vector<double> numbers;
  Tensor tensor;
};

/// Sums of a tile, by what the first warp of a block does; those of a lane's rows and columns as kernels store them.
struct TileParams {
  Blocks w, w2;
  const float* x;  // [columns][k]
  float* sums;     // [16][columns]
  int first, glu;
};
template <int F>
void tile(TileParams p) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= 32) return;
  const Rows of{p.w, p.w2, std::min(p.first, rows - 1), rows - 1, blocks, p.glu != 0, 0};
  const Ring<F> ring(of);
  const u32 operand = Ring<F>::bytes;
  float tot[2][4] = {};
  for (int block = 0; block < blocks; ++block) {
    for (int column = 0; column < columns; ++column)
      for (int half = 0; half < 2; ++half) {
        const float* v = p.x + column * blocks * 256 + block * 256 + half * 128 + lane * 4;
        store_operand_four(reinterpret_cast<char*>(emulated_shared + operand) + column * OPERAND_PITCH, columns, half * 128 + lane * 4,
                           {v[0], v[1], v[2], v[3]}, true);
      }
    ring.fetch(of, 0, block);
    __syncwarp();
    block_products<2>(ring, of, block, 0, operand, OPERAND_PITCH, tot);
    __syncwarp();
  }
  settle_columns<Ring<F>, 2>(tot);
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i) p.sums[(row_of(lane >> 2) + (i >> 1) * 8) * columns + n * 8 + 2 * (lane & 3) + (i & 1)] = tot[n][i];
}

/// Activations are small whole numbers, whose means are exact. So what is left are roundings of A, once in f16 for Q6_K, and of sums of k products
/// and minimums in f32.
template <int F>
void expect_tiles(bool glu) {
  constexpr auto dtype = static_cast<quern_dtype>(F);
  SCOPED_TRACE(sdk::concat("dtype ", dtype, glu ? ", gate and up" : ""));
  Weights w(dtype, "gate"), w2(dtype, "up");
  ASSERT_TRUE(is_half_format(w.tensor));
  std::vector<float> x(columns * blocks * 256);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7919 % 17) - 8);
  Bytes shared(Ring<F>::bytes + columns * OPERAND_PITCH);
  emulated_shared = shared.data();
  for (int first = 0; first < rows; first += glu ? 8 : 16) {
    float sums[16 * columns];
    run_emulated(tile<F>, 1, 1, TileParams{blocks_of(w.tensor), blocks_of(w2.tensor), x.data(), sums, first, glu ? 1 : 0});
    for (int r = 0; r < 16; ++r) {
      const int row = first + (glu ? r & 7 : r);
      if (row >= rows) continue;
      for (int column = 0; column < columns; ++column) {
        double sum = 0, size = 0;
        for (int k = 0; k < blocks * 256; ++k) {
          const double weight = (glu && r >= 8 ? w2 : w).at(row, k),
                       product = weight * static_cast<double>(x[static_cast<std::size_t>(column * blocks * 256 + k)]);
          sum += product, size += std::fabs(product);
        }
        const double step = dtype == QUERN_Q6_K ? 0x1p-11 : 0;
        // A minimum and its code cancel: each is up to some times their difference.
        EXPECT_NEAR(static_cast<double>(sums[r * columns + column]), sum, size * (step + 4 * blocks * 256 * 0x1p-24))
            << "row " << row << ", column " << column;
      }
    }
  }
}

TEST(HalfFormats, TilesOfEachFormat) {
#define QUERN_EXPECT_TILES(FORMAT) expect_tiles<FORMAT>(false);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_TILES, QUERN_EXPECT_TILES)
#undef QUERN_EXPECT_TILES
}
TEST(HalfFormats, TilesOfGateAndUp) {
#define QUERN_EXPECT_TILES(FORMAT) expect_tiles<FORMAT>(true);
  QUERN_CUDA_HALF_FORMATS(QUERN_EXPECT_TILES, QUERN_EXPECT_TILES)
#undef QUERN_EXPECT_TILES
}

}  // namespace
}  // namespace quern::cuda
