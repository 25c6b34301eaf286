// Kernels that the driver without a card computes on the host, so that a device opens and answers of small graphs are right; all others do nothing.
#pragma once

#include "kernels/elementwise.hpp"
#include "kernels/matmul.hpp"
#include "kernels/params.hpp"

#include "quern/quern_dtypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using namespace quern::cuda;

float half(unsigned short bits) {  // normal numbers and zero: a scale of the self-test
  if ((bits & 0x7fff) == 0) return 0;
  return std::ldexp(1.0f + static_cast<float>(bits & 0x3ff) / 1024.0f, ((bits >> 10) & 31) - 15) * (bits & 0x8000 ? -1.0f : 1.0f);
}

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

/// Element `i` of a matrix of plain floats, of q8_0 (scales, codes), or of another format: a number made of its block's bytes.
float element(const Blocks& w, long long i) {
  if (w.dtype == QUERN_F32) return at<float>(w.plane[0])[i];
  if (w.dtype != QUERN_Q8_0) {
    const long long of = static_cast<unsigned>(w.dtype) >= QUERN_Q4_K ? i / 256 : i / 32;
    float sum = static_cast<float>(i % 5);
    for (int p = 0; p < 4; ++p)
      if (w.stride[p] != 0) sum += static_cast<float>(at<unsigned char>(w.plane[p] + static_cast<Address>(of * w.stride[p]))[i % 2]);
    return sum;
  }
  const long long block = i / 32;
  return half(*at<unsigned short>(w.plane[0] + static_cast<Address>(block * w.stride[0]))) *
         static_cast<float>(at<signed char>(w.plane[1] + static_cast<Address>(block * w.stride[1]))[i % 32]);
}

void unpack_rows(const void* params) {
  const auto& p = *static_cast<const UnpackParams*>(params);
  if (p.y_dtype != QUERN_F32) return;  // 16-bit copies of weights: no kernel here reads them
  for (long long i = 0; i < p.rows * p.k; ++i) at<float>(p.y)[i] = element(p.w, i);
}

/// y = alpha x W^T, each sum from the first element to the last: `rows` rows of activations, `columns` rows of W, each of which is decoded once.
void multiply(const Blocks& w, const float* x, float* y, int rows, int columns, int k, float alpha) {
  constexpr int together = 8;  // sums that do not wait for one another
  std::vector<float> weights(static_cast<std::size_t>(k));
  for (int column = 0; column < columns; ++column) {
    for (int i = 0; i < k; ++i) weights[static_cast<std::size_t>(i)] = element(w, static_cast<long long>(column) * k + i);
    for (int first = 0; first < rows; first += together) {
      const int count = std::min(together, rows - first);
      const float* row[together];
      float sums[together] = {};
      for (int t = 0; t < together; ++t) row[t] = x + static_cast<long long>(first + std::min(t, count - 1)) * k;
      for (int i = 0; i < k; ++i)
        for (int t = 0; t < together; ++t) sums[t] += weights[static_cast<std::size_t>(i)] * row[t][i];
      for (int t = 0; t < count; ++t) y[static_cast<long long>(first + t) * columns + column] = alpha * sums[t];
    }
  }
}

void gemv_exact(const void* params) {
  const auto& p = *static_cast<const GemvExactParams*>(params);
  multiply(p.w, at<float>(p.x), at<float>(p.y), p.t, p.rows, p.k, p.alpha);
}

void gemm_exact(const void* params) {
  const auto& p = *static_cast<const GemmParams*>(params);
  multiply(p.w, at<float>(p.x), at<float>(p.y), p.m, p.n, p.k, p.alpha);
}

/// The last entry first: a card delivers them side by side, and no order may count.
void deliver(const void* params) {
  const auto& p = *static_cast<const PatchParams*>(params);
  for (unsigned e = *at<unsigned>(p.count); e-- > 0;) {
    const Patch& patch = at<Patch>(p.entries)[e];
    std::memcpy(at<char>(patch.to), at<char>(p.bytes) + patch.offset, patch.bytes);
  }
}

void publish(const void* params) {
  const auto& p = *static_cast<const PublishParams*>(params);
  for (int i = 0; i < p.count; ++i) std::memcpy(at<char>(p.to[i]), at<char>(p.from[i]), p.bytes[i]);
}

char* place(const Operand& o, const Shape& s, long long i) {
  char* to = at<char>(o.data);
  for (int d = s.rank - 1; d > 0; --d) {
    to += i % s.dims[d] * o.strides[d];
    i /= s.dims[d];
  }
  return to + i * o.strides[0];
}

void copy_elements(const void* params) {
  const auto& p = *static_cast<const CopyParams*>(params);
  for (long long i = 0; i < p.shape.count; ++i) {
    if (p.live.data != 0 && at<int>(p.live.data)[p.live.count == 1 ? 0 : i / p.elements_a_row] == 0) continue;
    std::memcpy(place(p.y, p.shape, i), place(p.x, p.shape, i), static_cast<std::size_t>(p.bytes));
  }
}

void matmul_any(const void* params) {  // of f32
  const auto& p = *static_cast<const MatmulAnyParams*>(params);
  const auto f32 = [](const char* from) { return *reinterpret_cast<const float*>(from); };
  for (long long batch = 0; batch < p.batches.count; ++batch)
    for (long long m = 0; m < p.m; ++m)
      for (long long n = 0; n < p.n; ++n) {
        const char *a = place(p.a, p.batches, batch) + m * p.a_row, *b = place(p.b, p.batches, batch) + n * p.b_row;
        float sum = 0;
        for (long long k = 0; k < p.k; ++k) sum += f32(a + k * p.a.step) * f32(b + k * p.b.step);
        *reinterpret_cast<float*>(place(p.y, p.batches, batch) + m * p.y_row + n * p.y.step) = p.alpha * sum;
      }
}

void logit_bias(const void* params) {
  const auto& p = *static_cast<const BiasParams*>(params);
  for (long long row = 0; row < p.rows; ++row) {
    std::copy_n(at<float>(p.x) + row * p.n, p.n, at<float>(p.y) + row * p.n);
    for (long long e = 0; e < p.entries; ++e)
      if (const int token = at<int>(p.token)[row * p.entries + e]; token >= 0 && token < p.n)
        at<float>(p.y)[row * p.n + token] += at<float>(p.bias)[row * p.entries + e];
  }
}

void repack(const void* params) {
  const auto& p = *static_cast<const RepackParams*>(params);
  for (long long block = 0; block < p.blocks; ++block)
    for (int piece = 0; piece < 4; ++piece)
      std::memcpy(at<char>(p.to[piece] + static_cast<Address>(block * p.bytes[piece])),
                  at<char>(p.from + static_cast<Address>(block * p.block_bytes + p.offset[piece])),
                  static_cast<std::size_t>(p.bytes[piece]));
}

void quantise(const void* params) {
  const auto& p = *static_cast<const QuantiseParams*>(params);
  for (int group = 0; group < p.k / 32; ++group) {
    const float* x = at<float>(p.x) + group * 32;
    float most = 0, sum = 0;
    for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
    const float scale = most / 127.0f;
    for (int i = 0; i < 32; ++i) {
      const float code = scale == 0 ? 0 : std::round(x[i] / scale);
      at<signed char>(p.out.codes)[group * 32 + i] = static_cast<signed char>(code);
      sum += code;
    }
    at<float>(p.out.meta)[group * 2] = scale;
    at<float>(p.out.meta)[group * 2 + 1] = sum;
  }
}

void gemv(const void* params) {  // TilesParams begin with GemvParams
  const auto& p = *static_cast<const GemvParams*>(params);
  if (p.part[0].y == 0 || p.x.codes == 0 || p.parts > 1) return;  // a fused step's: nothing is computed there
  for (int row = 0; row < p.part[0].rows; ++row) {
    float sum = 0;
    for (int i = 0; i < p.k; ++i)
      sum += element(p.part[0].w, static_cast<long long>(row) * p.k + i) * at<float>(p.x.meta)[i / 32 * 2] *
             static_cast<float>(at<signed char>(p.x.codes)[i]);
    at<float>(p.part[0].y)[row] = sum;
  }
}

void do_nothing(const void*) {}

struct Kernel {
  std::string_view prefix;
  void (*compute)(const void*);
  std::size_t params_bytes;  // that it reads
};
constexpr Kernel kernels[] = {{"unpack_rows", unpack_rows, sizeof(UnpackParams)},
                              {"gemv_exact_", gemv_exact, sizeof(GemvExactParams)},
                              {"quantise", quantise, sizeof(QuantiseParams)},
                              {"gemv_1", gemv, sizeof(GemvParams)},
                              {"stream", gemv, sizeof(GemvParams)},
                              {"tiles", gemv, sizeof(GemvParams)},
                              {"gemm_exact", gemm_exact, sizeof(GemmParams)},
                              {"gemm_mma", gemm_exact, sizeof(GemmParams)},
                              {"gemm_join", do_nothing, sizeof(GemmParams)},  // what shares k here has all of it
                              {"matmul_any", matmul_any, sizeof(MatmulAnyParams)},
                              {"deliver", deliver, sizeof(PatchParams)},
                              {"publish", publish, sizeof(PublishParams)},
                              {"copy_elements", copy_elements, sizeof(CopyParams)},
                              {"repack", repack, sizeof(RepackParams)},
                              {"logit_bias", logit_bias, sizeof(BiasParams)}};

}  // namespace
