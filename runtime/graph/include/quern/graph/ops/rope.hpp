// Rotary position embedding. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

#include <array>

namespace quern::graph::ops {

/// How the frequencies of a table are stretched.
enum class RopeScaling : std::int64_t { none = 0, linear = 1, yarn = 2, llama3 = 3, ntk = 4, dynamic = 5 };

struct RopeTableAttributes {
  double base = 10000;  // > 0
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                  // > 0
  std::int64_t original_context = 0;  // yarn, llama3 and dynamic: needed
  double beta_fast = 32, beta_slow = 1;
  double mscale = 1;  // multiplies cos and sin
  double low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t first = 0;  // the position of row 0
};

/// table[p][i] = mscale * (cos, sin) of (first + p) * f_i, computed in f64 and rounded once.
///
///   position_count  i32 [1], how many rows are wanted; absent: all
///   factors         f32 [d / 2]; absent: 1
///   table           f32 [n, d / 2, 2]
///
/// f_i = base^(-2i / d) / factors[i], then by scaling:
///   linear  f / factor
///   yarn    f / factor where the ramp r_i = clamp((i - low) / max(high - low, 0.001), 0, 1) is 1, f where it is 0, mixed
///           between; low and high are the pairs that turn beta_fast and beta_slow times over original_context,
///           d ln(original_context / (2 pi beta)) / (2 ln base), rounded down and up and held in 0 .. d - 1
///   llama3  f / factor for wavelengths above original_context / low_freq_factor, f for those below original_context /
///           high_freq_factor, between them mixed by (original_context / wavelength - low) / (high - low)
///   ntk     base * factor^(d / (d - 2)) in place of base
///   dynamic ntk with factor * c / original_context - factor + 1 in place of factor, where c is the larger of position_count
///           and original_context
/// Sources: Su et al. 2021 (arXiv:2104.09864); Peng et al. 2023 (arXiv:2309.00071) for YaRN.
ValueId rope_table(Graph& graph, Shape shape, ValueId position_count, ValueId factors, const RopeTableAttributes& how,
                   NodeOptions options = {});

struct RopeAttributes {
  std::int64_t mode = 0;                   // 0: pairs (2i, 2i + 1); 1: pairs (i, i + r / 2)
  bool inverse = false;                    // turns the other way: the gradient
  std::array<std::int64_t, 4> sections{};  // pairs that go by each row of position; all 0: one position a token
};

/// Rotates pairs of the first r elements of each head; the others are copied.
///
///   x         [t, heads, d]  f32, f16 or bf16; any strides
///   position  [t] i32, or [4, t] with sections, which then add up to r / 2; outside the table: zeros and INDEX_RANGE
///   table     [n, r / 2, 2]  f32 of rope_table; r <= d
///   y         like x; in place
ValueId rope(Graph& graph, ValueId x, ValueId position, ValueId table, const RopeAttributes& how, NodeOptions options = {});

}  // namespace quern::graph::ops
