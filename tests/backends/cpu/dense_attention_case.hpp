// What the tests of dense attention and of its gradients share: one case, what its mask and ALiBi mean, and the variations both run.
#pragma once

#include "harness.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace quern::cpu_test {

inline constexpr double no_score = -std::numeric_limits<double>::infinity();

struct DenseAttentionCase {
  std::int64_t batch = 2, queries = 5, keys = 9, heads = 6, kv_heads = 2, d = 24, dv = 20;
  quern_dtype dtype = QUERN_F32;
  double scale = 0.2, softcap = 0, max_bias = 0;
  std::int64_t query_offset = 4, window = 0;
  bool causal = true;
  Tensor mask = absent(), sinks = absent();
};

inline std::vector<Attribute> attributes_of(const DenseAttentionCase& c) {
  return {{QUERN_KEY_SCALE, c.scale},
          {QUERN_KEY_QUERY_OFFSET, static_cast<double>(c.query_offset)},
          {QUERN_KEY_WINDOW, static_cast<double>(c.window)},
          {QUERN_KEY_CAUSAL, c.causal ? 1.0 : 0.0},
          {QUERN_KEY_SOFTCAP, c.softcap},
          {QUERN_KEY_MAX_BIAS, c.max_bias}};
}

/// The mask's number for a score: 0 or -inf for bytes, 0 without a mask.
inline double mask_at(const DenseAttentionCase& c, const std::vector<double>& mask, std::int64_t b, std::int64_t h, std::int64_t t,
                      std::int64_t j) {
  if (c.mask.dtype == QUERN_DTYPE_NONE) return 0;
  const std::int64_t at[] = {b, h, t, j};
  std::int64_t index = 0;
  for (std::size_t d = 0; d < c.mask.dims.size(); ++d) {
    const std::int64_t size = c.mask.dims[d];
    index = index * size + (size == 1 ? 0 : at[4 - c.mask.dims.size() + d]);
  }
  if (c.mask.dtype == QUERN_U8) return c.mask.raw()[static_cast<std::size_t>(index)] == 0 ? no_score : 0;
  return mask[static_cast<std::size_t>(index)];
}

/// ALiBi for 6 heads: four slopes 2^(-b i / 4), then every other one of 2^(-b i / 8).
inline double slope_of(double max_bias, std::int64_t head) {
  if (max_bias <= 0) return 1;
  const double steps[] = {1.0 / 4, 2.0 / 4, 3.0 / 4, 4.0 / 4, 1.0 / 8, 3.0 / 8};
  return std::exp2(-max_bias * steps[head]);
}

/// Calls check(case, name) with windows, softcap, sinks, masks of every rank, slopes and byte masks put on `plain`.
template <typename Case, typename Check>
void each_variation(const Case& plain, const Check& check) {
  Case c = plain;
  c.window = 3;
  check(c, "window");
  c.causal = false;
  check(c, "window alone");
  c.query_offset = 200;
  check(c, "window behind the last key");
  c = plain;
  c.softcap = 0.7;
  check(c, "softcap");
  const Tensor sinks = of({6}, {0.5f, -3.0f, 4.0f, 20.0f, -1000.0f, 0.0f});
  c.sinks = sinks;
  check(c, "softcap and sinks");
  const std::vector<std::int64_t> ranks[] = {{c.queries, c.keys}, {6, c.queries, c.keys}, {2, 1, c.queries, c.keys}, {1, c.keys}};
  for (const std::vector<std::int64_t>& dims : ranks) {
    c.mask = make(QUERN_F32, dims);
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.mask.elements()); ++i)
      c.mask.f32()[i] = i % 4 == 1 ? -std::numeric_limits<float>::infinity() : i % 7 == 3 ? -1e30f : 0.1f * static_cast<float>(i % 11);
    c.max_bias = 0;
    check(c, "mask of rank " + std::to_string(dims.size()));
    c.max_bias = 8;
    check(c, "mask with slopes of rank " + std::to_string(dims.size()));
  }
  c = plain;
  c.mask = make(QUERN_U8, {c.queries, c.keys});
  const auto keys = static_cast<std::size_t>(c.keys);
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.mask.elements()); ++i)
    c.mask.raw()[i] = i / keys != 2 && i % 3 != 0;  // query 2 sees nothing
  check(c, "byte mask");
  c.sinks = sinks;
  check(c, "byte mask and sinks");
}

}  // namespace quern::cpu_test
