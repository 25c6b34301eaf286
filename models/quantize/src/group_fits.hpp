// Sums over a group and the scales of least squares that follow from them.
//
// All sums go through `lanes` partial ones in a fixed order, so that the bytes are the same with vectors of any width.
#pragma once

#include "block_layout.hpp"
#include "lanes.hpp"

#include "quern/sdk/host_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::quantize::QUERN_FITS_ISA {

inline constexpr int steps = 9;  // candidates on either side
inline constexpr float step = 0.1f;
inline constexpr int rounds = 2;

struct Limits {
  Limits(float least, float most) : low(least), high(most) {}
  explicit Limits(Range range) : Limits(static_cast<float>(range.low), static_cast<float>(range.high)) {}
  float low, high;
};

/// The nearest integer within the limits, ties to even: a float of 2^23 and more has no fraction.
inline float nearest(float x, Limits limits) noexcept {
  constexpr float whole = 12582912.0f;  // 1.5 * 2^23
  return (std::min(std::max(x, limits.low), limits.high) + whole) - whole;
}

inline Lanes nearest(Lanes x, Lanes low, Lanes high) noexcept {
  const Lanes whole = Lanes::of(12582912.0f);
  return (x.within(low, high) + whole) - whole;
}

inline float inverse_of(float x) noexcept {
  const float inverse = 1 / x;
  return std::isfinite(inverse) ? inverse : 0;
}

inline float as_f16(float x) noexcept { return sdk::from_f16(sdk::to_f16(x)); }

/// Weighted sums of the codes c that round (x - minimum) * inverse.
struct Sums {
  float c, cc, xc;
};

template <int n>
Sums sums_of(const float* x, const float* w, float inverse, float minimum, Limits limits) noexcept {
  const Lanes by = Lanes::of(inverse), from = Lanes::of(minimum), low = Lanes::of(limits.low), high = Lanes::of(limits.high);
  Lanes c = Lanes::of(0), cc = c, xc = c;
  for (int i = 0; i < n; i += lanes) {
    const Lanes xs = Lanes::at(x + i), code = nearest((xs - from) * by, low, high), weighted = Lanes::at(w + i) * code;
    c = c + weighted;
    cc = cc + weighted * code;
    xc = xc + weighted * xs;
  }
  return {c.sum(), cc.sum(), xc.sum()};
}

template <int n>
float group_error(const float* x, const float* w, float scale, float minimum, Limits limits) noexcept {
  const Lanes by = Lanes::of(inverse_of(scale)), from = Lanes::of(minimum), low = Lanes::of(limits.low), high = Lanes::of(limits.high);
  const Lanes scales = Lanes::of(scale);
  Lanes error = Lanes::of(0);
  for (int i = 0; i < n; i += lanes) {
    const Lanes xs = Lanes::at(x + i), code = nearest((xs - from) * by, low, high), off = xs - (scales * code + from);
    error = error + Lanes::at(w + i) * off * off;
  }
  return error.sum();
}

/// n is a multiple of `lanes`.
inline void put_codes(const float* x, int n, float scale, float minimum, Limits limits, float* codes) noexcept {
  const Lanes by = Lanes::of(inverse_of(scale)), from = Lanes::of(minimum), low = Lanes::of(limits.low), high = Lanes::of(limits.high);
  for (int i = 0; i < n; i += lanes) nearest((Lanes::at(x + i) - from) * by, low, high).store(codes + i);
}

/// The element of largest magnitude, with its sign.
inline float extreme(const float* x, int n) noexcept {
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  return best;
}

/// The scale of x = scale * code: of all candidates the one whose codes explain most of the weighted squares.
template <int n>
class ScaleSearch {
 public:
  /// With `positive`, candidates whose scale would not be above 0 do not count.
  ScaleSearch(const float* x, const float* w, Limits limits, bool positive) : x_(x), w_(w), limits_(limits), positive_(positive) {}

  /// Candidates at and around at * inverse, so far from each other.
  void consider_around(float at, float apart, float inverse) noexcept {
    for (int k = -steps; k <= steps; ++k) consider((at + apart * static_cast<float>(k)) * inverse);
  }

  /// The scale that was found, as its own codes have it.
  float refined() noexcept {
    for (int round = 0; round < rounds; ++round)
      if (!consider(inverse_of(scale_))) break;
    return scale_;
  }

 private:
  bool consider(float inverse) noexcept {
    const Sums s = sums_of<n>(x_, w_, inverse, 0, limits_);
    if (!(s.cc > 0) || (positive_ && !(s.xc > 0)) || !(s.xc * s.xc > explained_ * s.cc)) return false;
    explained_ = s.xc * s.xc / s.cc;
    scale_ = s.xc / s.cc;
    return true;
  }

  const float *x_, *w_;
  Limits limits_;
  bool positive_;
  float scale_ = 0, explained_ = 0;
};

template <int n>
float fit_scale(const float* x, const float* w, Limits limits) noexcept {
  const float inverse = inverse_of(extreme(x, n));
  ScaleSearch<n> search(x, w, limits, false);
  for (const float end : {limits.low, limits.high}) search.consider_around(end, step, inverse);
  return search.refined();
}

struct Line {
  float scale = 0, minimum = 0;
};

/// The line of x = scale * code + minimum; with `below`, of a minimum that is not above 0.
template <int n>
Line fit_line(const float* x, const float* w, Limits limits, bool below) noexcept {
  float lowest = x[0], highest = x[0], sum_w[lanes] = {}, sum_x[lanes] = {};
  for (int i = 0; i < n; ++i) {
    lowest = std::min(lowest, x[i]);
    highest = std::max(highest, x[i]);
    sum_w[i % lanes] += w[i];
    sum_x[i % lanes] += w[i] * x[i];
  }
  const float all_w = joined(sum_w), all_x = joined(sum_x);
  if (below) lowest = std::min(lowest, 0.0f);
  Line best{0, lowest};
  float least = std::numeric_limits<float>::infinity();
  const auto consider = [&](float inverse, float minimum) {
    const Sums s = sums_of<n>(x, w, inverse, minimum, limits);
    const float det = all_w * s.cc - s.c * s.c;
    if (!(det > 0)) return false;
    Line line{(all_w * s.xc - all_x * s.c) / det, (s.cc * all_x - s.c * s.xc) / det};
    if (below && line.minimum > 0) line = {s.xc / s.cc, 0};
    const float error =
        line.scale * (line.scale * s.cc - 2 * s.xc + 2 * line.minimum * s.c) + line.minimum * (line.minimum * all_w - 2 * all_x);
    if (!(line.scale > 0) || !(error < least)) return false;
    least = error;
    best = line;
    return true;
  };
  if (!(highest > lowest)) return best;
  for (int k = -steps; k <= steps; ++k) consider((limits.high + step * static_cast<float>(k)) / (highest - lowest), lowest);
  for (int round = 0; round < rounds; ++round)
    if (!consider(inverse_of(best.scale), best.minimum)) break;
  return best;
}

}  // namespace quern::quantize::QUERN_FITS_ISA
