// Fits of blocks.
//
// A group's candidates are scales a little above and below the one that its largest element asks for. Each gives codes, and the codes give
// the scale (and minimum) of least squares. Where a block has scales of its own for groups, these are integers. Their neighbours are tried
// with all codes anew. Then the block's scale is fitted to the codes, as long as that gains.
#include "fits.hpp"

#include "code_fits.hpp"
#include "group_fits.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace quern::quantize::QUERN_FITS_ISA {
namespace {

template <int n>
void fit_symmetric(const BlockLayout& layout, const float* x, const float* w, Block& block) noexcept {
  const Limits limits(layout.codes());
  const std::uint16_t near = sdk::to_f16(fit_scale<n>(x, w, limits));
  float least = std::numeric_limits<float>::infinity();
  for (const int beside : {0, -1, 1}) {
    const float scale = sdk::from_f16(static_cast<std::uint16_t>(near + beside));
    if (!std::isfinite(scale)) continue;
    if (const float error = group_error<n>(x, w, scale, 0, limits); error < least) least = error, block.scale = scale;
  }
  put_codes(x, n, block.scale, 0, limits, block.codes);
}

template <int n>
void fit_offset(const BlockLayout& layout, const float* x, const float* w, Block& block) noexcept {
  const Limits limits(layout.codes());
  const Line line = fit_line<n>(x, w, limits, false);
  block.scale = as_f16(line.scale);
  block.minimum = as_f16(line.minimum);
  put_codes(x, n, block.scale, block.minimum, limits, block.codes);
}

/// The fit of a block whose groups have integers for scales, and for minima where the formula has them.
template <int n>
class SuperFit {
 public:
  SuperFit(const BlockLayout& layout, const float* x, const float* w, Block& block)
      : layout_(layout), x_(x), w_(w), block_(block), offset_(layout.formula() == QUERN_FORMULA_SUPER_OFFSET) {}

  void run() {
    start();
    float least = choose_integers();
    for (int round = 0; round < rounds; ++round) {
      const Block before = block_;
      fit_scales();
      const float error = std::isfinite(block_.scale) && std::isfinite(block_.minimum) ? choose_integers() : least;
      if (!(error < least)) {
        block_ = before;
        break;
      }
      least = error;
    }
  }

 private:
  float scale_of(int g) const { return block_.scale * static_cast<float>(block_.scales[g]); }
  float minimum_of(int g) const { return offset_ ? -block_.minimum * static_cast<float>(block_.minima[g]) : 0; }

  void start() {
    float scales[most_groups] = {}, minima[most_groups] = {};
    for (int g = 0; g < layout_.groups(); ++g) {
      const float *x = x_ + n * g, *w = w_ + n * g;
      if (offset_) {
        const Line line = fit_line<n>(x, w, codes_, true);
        scales[g] = line.scale;
        minima[g] = -line.minimum;
      } else {
        scales[g] = fit_scale<n>(x, w, codes_);
      }
    }
    // The largest scale gets the end of the range that is farther from 0.
    block_.scale = as_f16(extreme(scales, layout_.groups()) / (scales_.low < 0 ? scales_.low : scales_.high));
    if (offset_) block_.minimum = as_f16(extreme(minima, layout_.groups()) / minima_.high);
    for (int g = 0; g < layout_.groups(); ++g) {
      block_.scales[g] = static_cast<int>(nearest(scales[g] * inverse_of(block_.scale), scales_));
      block_.minima[g] = static_cast<int>(nearest(minima[g] * inverse_of(block_.minimum), minima_));
    }
  }

  /// The best neighbours of each group's integers, and the codes that follow. Returns the error of the block.
  float choose_integers() {
    float all = 0;
    const int around = offset_ ? 1 : 0;
    for (int g = 0; g < layout_.groups(); ++g) {
      const int scale = block_.scales[g], minimum = block_.minima[g];
      std::pair best(scale, minimum);
      float least = std::numeric_limits<float>::infinity();
      for (int s = std::max(scale - 1, layout_.scales().low); s <= std::min(scale + 1, layout_.scales().high); ++s)
        for (int m = std::max(minimum - around, layout_.minima().low); m <= std::min(minimum + around, layout_.minima().high); ++m) {
          block_.scales[g] = s;
          block_.minima[g] = m;
          const float error = group_error<n>(x_ + n * g, w_ + n * g, scale_of(g), minimum_of(g), codes_);
          if (error < least) least = error, best = {s, m};
        }
      std::tie(block_.scales[g], block_.minima[g]) = best;
      all += least;
      put_codes(x_ + n * g, n, scale_of(g), minimum_of(g), codes_, block_.codes + n * g);
    }
    return all;
  }

  /// The block's scale and minimum of least squares for the integers that it has.
  void fit_scales() {
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;  // x = scale * a + minimum * b
    for (int g = 0; g < layout_.groups(); ++g) {
      float c[lanes] = {}, cc[lanes] = {}, xc[lanes] = {}, ws[lanes] = {}, xs[lanes] = {};
      for (int i = n * g; i < n * (g + 1); ++i) {
        const int l = i % lanes;
        const float code = block_.codes[i], weighted = w_[i] * code;
        c[l] += weighted;
        cc[l] += weighted * code;
        xc[l] += weighted * x_[i];
        ws[l] += w_[i];
        xs[l] += w_[i] * x_[i];
      }
      const double a = block_.scales[g], b = -block_.minima[g];
      aa += a * a * joined(cc);
      ab += a * b * joined(c);
      bb += b * b * joined(ws);
      xa += a * joined(xc);
      xb += b * joined(xs);
    }
    const double det = aa * bb - ab * ab;
    if (offset_ && det > 0) {
      block_.scale = as_f16(static_cast<float>((bb * xa - ab * xb) / det));
      block_.minimum = as_f16(static_cast<float>((aa * xb - ab * xa) / det));
    } else if (aa > 0) {
      block_.scale = as_f16(static_cast<float>((xa - block_.minimum * ab) / aa));
    }
  }

  const BlockLayout& layout_;
  const float *x_, *w_;
  Block& block_;
  const bool offset_;
  const Limits codes_{layout_.codes()}, scales_{layout_.scales()}, minima_{layout_.minima()};
};

template <int n>
void fit(const BlockLayout& layout, const float* x, const float* w, Block& block) {
  switch (layout.formula()) {
    case QUERN_FORMULA_SYMMETRIC: return fit_symmetric<n>(layout, x, w, block);
    case QUERN_FORMULA_OFFSET: return fit_offset<n>(layout, x, w, block);
    default: return SuperFit<n>(layout, x, w, block).run();
  }
}

void round_block(const BlockLayout& layout, const float* x, Block& block) {
  const Limits codes(layout.codes()), scales(layout.scales()), minima(layout.minima());
  const int n = layout.group(), groups = layout.groups();
  const bool offset = layout.formula() == QUERN_FORMULA_OFFSET, super_offset = layout.formula() == QUERN_FORMULA_SUPER_OFFSET;
  float scale[most_groups] = {}, minimum[most_groups] = {};
  for (int g = 0; g < groups; ++g) {
    const auto [low, high] = std::minmax_element(x + n * g, x + n * (g + 1));
    if (offset || super_offset) {
      minimum[g] = offset ? *low : std::min(*low, 0.0f);
      scale[g] = (*high - minimum[g]) / codes.high;
    } else {
      scale[g] = extreme(x + n * g, n) / (codes.low < -codes.high ? codes.low : codes.high);
    }
  }
  const bool super = super_offset || layout.formula() == QUERN_FORMULA_SUPER_SYMMETRIC;
  block.scale = as_f16(super ? extreme(scale, groups) / (scales.low < 0 ? scales.low : scales.high) : scale[0]);
  block.minimum = as_f16(super_offset ? -extreme(minimum, groups) / minima.high : minimum[0]);
  for (int g = 0; g < groups; ++g) {
    block.scales[g] = super ? static_cast<int>(nearest(scale[g] * inverse_of(block.scale), scales)) : 1;
    block.minima[g] = super_offset ? static_cast<int>(nearest(-minimum[g] * inverse_of(block.minimum), minima)) : 0;
    put_codes(x + n * g, n, block.scale * static_cast<float>(block.scales[g]),
              super_offset ? -block.minimum * static_cast<float>(block.minima[g]) : block.minimum, codes, block.codes + n * g);
  }
}

void fit_block(const BlockLayout& layout, const float* x, const float* weights, Block& block) {
  layout.group() == 16 ? fit<16>(layout, x, weights, block) : fit<32>(layout, x, weights, block);
}

}  // namespace

extern const Fits fits;
const Fits fits = {QUERN_FITS_NAME, round_block, fit_block, fit_group};

}  // namespace quern::quantize::QUERN_FITS_ISA
