// y[r] += sum over j of w[r][j] * x[j]: the product whose sum runs over rows, as gradients need it.
//
//   order    each output is one sum from 0 in the order of j, which is then added to y: its bits depend neither on the other rows nor
//            on the tile
//   tile     4 rows x 64 columns under AVX-512 (16 accumulators, 8 loads for 16 multiply-adds), 3 x 32 under AVX2, 2 x 16 portable;
//            64 columns of a block of 64 rows of x stay in the first-level cache while all rows of y pass
#include "lanes.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

namespace {

#if defined(QUERN_CPU_ISA_avx512)
constexpr int most_rows = 4, wide = 4;
#elif defined(QUERN_CPU_ISA_avx2)
constexpr int most_rows = 3, wide = 2;
#else
constexpr int most_rows = 2, wide = 1;
#endif

template <int Rows, int Width>
void tile(const AccumulatePart& p, std::int64_t row, std::int64_t column) {
  Lanes sums[Rows][Width];
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Width; ++c) sums[r][c] = zero();
  const float *w = p.w + row * p.w_row, *x = p.x + column;
  for (std::int64_t j = 0; j < p.depth; ++j, x += p.x_stride) {
    Lanes values[Width];
    for (int c = 0; c < Width; ++c) values[c] = load(x + 16 * c);
    for (int r = 0; r < Rows; ++r) {
      const Lanes weight = broadcast(w[r * p.w_row + j * p.w_step]);
      for (int c = 0; c < Width; ++c) sums[r][c] = fma(weight, values[c], sums[r][c]);
    }
  }
  for (int r = 0; r < Rows; ++r) {  // a row that stands twice is read again
    float* y = p.y + (p.y_rows == nullptr ? row + r : p.y_rows[row + r]) * p.y_stride + column;
    for (int c = 0; c < Width; ++c) store(y + 16 * c, add(load(y + 16 * c), sums[r][c]));
  }
}

template <int Width>
void columns_of(const AccumulatePart& p, std::int64_t column) {
  std::int64_t r = 0;
  for (; r + most_rows <= p.rows; r += most_rows) tile<most_rows, Width>(p, r, column);
  for (; r < p.rows; ++r) tile<1, Width>(p, r, column);
}

}  // namespace

void accumulate(const AccumulatePart& p) noexcept {
  std::int64_t c = 0;
  for (; c + 16 * wide <= p.columns; c += 16 * wide) columns_of<wide>(p, c);
  if constexpr (wide > 1)
    for (; c + 16 <= p.columns; c += 16) columns_of<1>(p, c);
}

}  // namespace quern::cpu::QUERN_CPU_ISA
