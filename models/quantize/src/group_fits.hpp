// Sums over groups and the scales of least squares that follow from them, for one group in each lane.
//
// A lane's sum goes from its first number to its last, so that the bytes are the same with vectors of any width.
#pragma once

#include "fits.hpp"
#include "lanes.hpp"

#include <algorithm>

namespace quern::quantize::QUERN_FITS_ISA {

inline constexpr int candidates = 16, together = 2;  // together: in one pass, so that one's sums do not wait for each other

/// Some columns of all lanes.
struct Columns {
  const Lanes *x, *w;
  Columns from(int column) const noexcept { return {x + column, w + column}; }
};

/// Each item in a lane; lanes beyond the items repeat the last one.
template <int n>
struct SideBySide {
  explicit SideBySide(std::span<const FitItem> items) noexcept {
    const auto item = [items](int lane) { return items[std::min(static_cast<std::size_t>(lane), items.size() - 1)]; };
    for (int first = 0; first < n; first += lanes) {
      for (int l = 0; l < lanes; ++l) {
        x[first + l] = at(item(l).x + first);
        w[first + l] = at(item(l).weights + first);
      }
      transpose(x + first);
      transpose(w + first);
    }
  }
  Lanes x[n], w[n];
};

/// Weighted sums of the codes c that round (x - minimum) * inverse.
struct Sums {
  Lanes c = {}, cc = {}, xc = {};
};

template <int n, int count>
void add_sums(Columns columns, const Lanes (&inverse)[count], Lanes minimum, const Limits& limits, Sums (&sums)[count]) noexcept {
  for (int i = 0; i < n; ++i) {
    const Lanes x = columns.x[i], w = columns.w[i];
#pragma GCC unroll 2
    for (int k = 0; k < count; ++k) {
      const Lanes code = nearest((x - minimum) * inverse[k], limits), weighted = w * code;
      sums[k].c += weighted;
      sums[k].cc += weighted * code;
      sums[k].xc += weighted * x;
    }
  }
}

template <int n>
Lanes group_error(Columns columns, Lanes scale, Lanes minimum, const Limits& limits) noexcept {
  const Lanes inverse = inverse_of(scale);
  Lanes error = {};
  for (int i = 0; i < n; ++i) {
    const Lanes code = nearest((columns.x[i] - minimum) * inverse, limits), off = columns.x[i] - (scale * code + minimum);
    error += columns.w[i] * off * off;
  }
  return error;
}

/// The element of largest magnitude, with its sign.
inline Lanes extreme(const Lanes* x, int n) noexcept {
  Lanes best = {}, largest = {};
  for (int i = 0; i < n; ++i) {
    const Lanes size = magnitude(x[i]);
    best = size > largest ? x[i] : best;
    largest = most_of(size, largest);
  }
  return best;
}

struct Ends {
  Lanes low, high;
};
inline Ends ends_of(const Lanes* x, int n) noexcept {
  Ends ends{x[0], x[0]};
  for (int i = 1; i < n; ++i) ends = {least_of(ends.low, x[i]), most_of(ends.high, x[i])};
  return ends;
}

/// Calls consider(sums) for `count` candidates (at + apart * k) * inverse, k from `first` on.
template <int n, typename Consider>
void each_candidate(Columns columns, float at, float apart, int first, int count, Lanes inverse, Lanes minimum, const Limits& limits,
                    const Consider& consider) noexcept {
  for (int k = first; k < first + count; k += together) {
    Lanes inverses[together];
    for (int j = 0; j < together; ++j) inverses[j] = (at + apart * static_cast<float>(k + j)) * inverse;
    Sums sums[together];
    add_sums<n>(columns, inverses, minimum, limits, sums);
    for (int j = 0; j < together; ++j) consider(sums[j]);
  }
}

struct PlainSums {
  Lanes w = {}, x = {};
};
template <int n>
PlainSums plain_sums(Columns columns) noexcept {
  PlainSums sums;
  for (int i = 0; i < n; ++i) {
    sums.w += columns.w[i];
    sums.x += columns.w[i] * columns.x[i];
  }
  return sums;
}

template <int n>
Sums sums_of(Columns columns, Lanes inverse, Lanes minimum, const Limits& limits) noexcept {
  Sums sums[1];
  add_sums<n>(columns, {inverse}, minimum, limits, sums);
  return sums[0];
}

/// The scale of x = scale * code: of all candidates the one whose codes explain most of the weighted squares.
template <int n>
class ScaleSearch {
 public:
  /// With `positive`, candidates whose scale would not be above 0 do not count.
  ScaleSearch(Columns columns, const Limits& limits, bool positive) noexcept
      : columns_(columns), limits_(limits), least_xc_(positive ? 0 : -std::numeric_limits<float>::infinity()) {}

  /// `count` candidates around at * inverse, so far from each other.
  void consider_around(float at, float apart, int count, Lanes inverse) noexcept {
    each_candidate<n>(columns_, at, apart, -count / 2, count, inverse, Lanes{}, limits_, [this](const Sums& sums) { consider(sums); });
  }

  /// The scale that was found, as its own codes have it.
  Lanes refined() noexcept {
    consider(sums_of<n>(columns_, inverse_of(scale_), Lanes{}, limits_));
    return scale_;
  }

 private:
  void consider(const Sums& s) noexcept {
    const Lanes scale = s.xc / s.cc, explained = s.xc * scale;
    const Integers better = (s.cc > 0) & (s.xc > least_xc_) & (explained > explained_);
    explained_ = better ? explained : explained_;
    scale_ = better ? scale : scale_;
  }

  Columns columns_;
  Limits limits_;
  float least_xc_;
  Lanes scale_ = {}, explained_ = {};
};

/// The largest element may have the code at either end.
template <int n>
Lanes fit_scale(Columns columns, Lanes largest, Range codes, const Limits& limits) noexcept {
  constexpr float apart = 0.3f;
  const Lanes inverse = inverse_of(largest);
  ScaleSearch<n> search(columns, limits, false);
  for (const int end : {codes.low, codes.high}) search.consider_around(static_cast<float>(end), apart, candidates / 2, inverse);
  return search.refined();
}

struct Line {
  Lanes scale = {}, minimum = {};
};

/// The line of x = scale * code + minimum; with `below`, of a minimum that is not above 0.
template <int n>
Line fit_line(Columns columns, Range codes, const Limits& limits, bool below) noexcept {
  constexpr float apart = 0.2f;
  constexpr int first = -10;  // more candidates with a larger scale than the ends ask for: an end may be cut
  auto [lowest, highest] = ends_of(columns.x, n);
  const auto [all_w, all_x] = plain_sums<n>(columns);
  if (below) lowest = least_of(lowest, Lanes{});
  Line best{Lanes{}, lowest};
  Lanes least = all(std::numeric_limits<float>::infinity());
  const auto consider = [&](const Sums& s) noexcept {
    const Lanes det = all_w * s.cc - s.c * s.c;
    Line line{(all_w * s.xc - all_x * s.c) / det, (s.cc * all_x - s.c * s.xc) / det};
    if (below) {
      const Integers above = line.minimum > 0;
      line = {above ? s.xc / s.cc : line.scale, above ? Lanes{} : line.minimum};
    }
    const Lanes error =
        line.scale * (line.scale * s.cc - 2 * s.xc + 2 * line.minimum * s.c) + line.minimum * (line.minimum * all_w - 2 * all_x);
    const Integers better = (det > 0) & (line.scale > 0) & (error < least);
    least = better ? error : least;
    best = {better ? line.scale : best.scale, better ? line.minimum : best.minimum};
  };
  const Lanes inverse = inverse_of(highest - lowest);
  each_candidate<n>(columns, static_cast<float>(codes.high), apart, first, candidates, inverse, lowest, limits, consider);
  consider(sums_of<n>(columns, inverse_of(best.scale), best.minimum, limits));
  return best;
}

}  // namespace quern::quantize::QUERN_FITS_ISA
