// What products of 1 to 64 rows by the matrix units share: the product of a tile, and storing its sums.
#pragma once
#include "mixed.hpp"
#include "activation.cuh"
#include "half_pairs.cuh"
#include "operand.cuh"

#if __CUDA_ARCH__ >= 900 || defined(QUERN_EMULATED_CARD)
/// Stores activation(gate) * up of output `output` and columns `left` + 2 t and the next into the operand at `to`, of `columns` columns of which `t` are
/// there: sums 0 and 1 are gate's, 2 and 3 up's. All lanes of a warp, whose eight outputs are a chunk of the operand, or go to `places` (operand.cuh).
/// P: parameters with the fields of MixedParams that are read here.
template <class P> DEV void store_gated(const P& p, Address to, int t, int last, int output, int left, const float* sum, Address places) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int column = left + 2 * (lane & 3) + i;
    const float gate = sum[i] * p.alpha, up = sum[i + 2] * p.alpha, y = output > last ? 0.0f : p.glu_scale * (gate_value(gate, p.activation) * up);
    float mean = 0.125f * y;
#pragma unroll
    for (int o = 4; o < 32; o <<= 1) mean += __shfl_xor_sync(~0u, mean, o);
    if (column >= t || output > last) continue;
    char* row = at<char>(to) + operand_row(column, p.columns, (last + 256) / 256);
    store_element(row, p.columns, places ? at<const int>(places)[output] : output, y, p.half);
    if (lane < 4 && !places)
      *reinterpret_cast<u16*>(row + (i64)(output >> 8) * p.columns * OPERAND_PITCH + 512 + mean_place((output & 255) >> 3)) = to_half(cut_to_half(mean));
  }
}

/// Stores a lane's sums of a tile that begins at row `first` of a part: rows `row` and `row` + 8 (under glu that row of gate and of up), columns
/// `left` + 2 t and the next. `residual`: what is to be added, where it is there already.
DEV void store_tile(const MixedParams& p, int part, int first, int row, int left, const float* sum, const float* residual = nullptr) {
  const int t = threadIdx.x & 3;
  const MixedPart& q = p.part[part];
  const int last = q.rows - 1;
  if (p.glu) return store_gated(p, p.glu_y, p.t, last, first + row, left, sum, p.glu_places);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = left + 2 * t + (i & 1), output = first + row + (i >> 1) * 8;
    if (column >= p.t || output > last) continue;
    float y = sum[i] * p.alpha;
    if (q.bias) y += at<const float>(q.bias)[output];
    if (residual) y += residual[i];
    else if (p.residual) y += at<const float>(p.residual)[(i64)column * q.row + output];
    if (p.residual2) y += at<const float>(p.residual2)[(i64)column * q.row + output];
    at<float>(q.y)[(i64)column * q.row + output] = y;
  }
}
#endif
