// Fits of blocks, one in each lane.
//
// A group's candidates are scales a little above and below the one that its largest element asks for. Each gives codes, and the codes give
// the scale (and minimum) of least squares. Where a block has scales of its own for groups, these are integers. Their neighbours are tried
// with all codes anew. Then the block's scale is fitted to the codes, as long as that gains.
#include "fits.hpp"

#include "code_fits.hpp"
#include "group_fits.hpp"
#include "lanes.hpp"

namespace quern::quantize::QUERN_FITS_ISA {
namespace {

constexpr int rounds = 2;  // of fitting a block's scale to its codes

Limits limits_of(Range range) noexcept { return {all(static_cast<float>(range.low)), all(static_cast<float>(range.high))}; }

/// The numbers of blocks but their codes, which are the nearest ones.
template <int groups>
struct ScalesOf {
  Lanes scale = {}, minimum = {};
  Lanes scales[groups] = {}, minima[groups] = {};

  void take(Integers where, const ScalesOf& others) noexcept {
    scale = where ? others.scale : scale;
    minimum = where ? others.minimum : minimum;
    for (int g = 0; g < groups; ++g) {
      scales[g] = where ? others.scales[g] : scales[g];
      minima[g] = where ? others.minima[g] : minima[g];
    }
  }
};

/// Of blocks of so many groups of n numbers each.
template <int n, int groups>
class BlockFit {
 public:
  using Scales = ScalesOf<groups>;

  BlockFit(const BlockLayout& layout, Columns columns) noexcept : layout_(layout), columns_(columns) {}

  Scales best() const noexcept {
    Scales plain = rounded(), fitted = plain;
    Lanes least = error_of(plain);
    const Integers holds = finite(plain.scale) & finite(plain.minimum);
    switch (layout_.formula()) {
      case QUERN_FORMULA_SYMMETRIC: fit_symmetric(fitted, least); break;
      case QUERN_FORMULA_OFFSET: fit_offset(fitted, least); break;
      default: fit_super(fitted, least);
    }
    plain.take(holds, fitted);
    return plain;
  }

  void put(const Scales& numbers, std::span<Block> blocks) const noexcept {
    for (int g = 0; g < groups; ++g) {
      put_codes(numbers, g, blocks);
      const Integers scales = whole(numbers.scales[g]), minima = whole(numbers.minima[g]);
      for (std::size_t l = 0; l < blocks.size(); ++l) {
        blocks[l].scales[g] = scales[l];
        blocks[l].minima[g] = minima[l];
      }
    }
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      blocks[l].scale = numbers.scale[l];
      blocks[l].minimum = numbers.minimum[l];
    }
  }

 private:
  bool has_integers() const noexcept { return layout_.formula() >= QUERN_FORMULA_SUPER_SYMMETRIC; }
  bool has_minima() const noexcept { return layout_.formula() == QUERN_FORMULA_SUPER_OFFSET; }
  Columns group(int g) const noexcept { return columns_.from(n * g); }

  Lanes scale_of(const Scales& numbers, int g) const noexcept { return has_integers() ? numbers.scale * numbers.scales[g] : numbers.scale; }
  Lanes minimum_of(const Scales& numbers, int g) const noexcept {
    return has_minima() ? -numbers.minimum * numbers.minima[g] : numbers.minimum;
  }
  void put_codes(const Scales& numbers, int g, std::span<Block> blocks) const noexcept {
    const Lanes inverse = inverse_of(scale_of(numbers, g)), minimum = minimum_of(numbers, g);
    for (int first = n * g; first < n * (g + 1); first += lanes) {
      Lanes codes[lanes];
      for (int i = 0; i < lanes; ++i) codes[i] = nearest((columns_.x[first + i] - minimum) * inverse, codes_);
      transpose(codes);
      for (std::size_t l = 0; l < blocks.size(); ++l) store(codes[l], blocks[l].codes + first);
    }
  }
  Lanes error_of(const Scales& numbers, int g) const noexcept {
    return group_error<n>(group(g), scale_of(numbers, g), minimum_of(numbers, g), codes_);
  }
  Lanes error_of(const Scales& numbers) const noexcept {
    Lanes error = {};
    for (int g = 0; g < groups; ++g) error += error_of(numbers, g);
    return error;
  }

  /// Each group by its largest element, or by its two ends.
  Scales rounded() const noexcept {
    if (layout_.formula() == QUERN_FORMULA_SYMMETRIC) return {as_f16(extreme(columns_.x, n) / codes_.low)};
    if (layout_.formula() == QUERN_FORMULA_OFFSET) {
      const Ends ends = ends_of(columns_.x, n);
      return {as_f16((ends.high - ends.low) / codes_.high), as_f16(ends.low)};
    }
    Lanes scales[groups], minima[groups];
    for (int g = 0; g < groups; ++g) {
      const Ends ends = ends_of(group(g).x, n);
      minima[g] = has_minima() ? -least_of(ends.low, Lanes{}) : Lanes{};
      scales[g] = has_minima() ? (ends.high + minima[g]) / codes_.high : extreme(group(g).x, n) / codes_.low;
    }
    return in_integers(scales, minima);
  }

  /// The largest scale gets the end of the range that is farther from 0.
  Scales in_integers(const Lanes* scales, const Lanes* minima) const noexcept {
    Scales made{as_f16(extreme(scales, groups) / (layout_.scales().low < 0 ? scales_.low : scales_.high))};
    if (has_minima()) made.minimum = as_f16(extreme(minima, groups) / minima_.high);
    for (int g = 0; g < groups; ++g) {
      made.scales[g] = nearest(scales[g] * inverse_of(made.scale), scales_);
      made.minima[g] = nearest(minima[g] * inverse_of(made.minimum), minima_);
    }
    return made;
  }

  /// Keeps `numbers` where its error is the least.
  void keep_better(const Scales& numbers, Lanes error, Scales& best, Lanes& least) const noexcept {
    const Integers better = finite(numbers.scale) & finite(numbers.minimum) & (error < least);
    least = better ? error : least;
    best.take(better, numbers);
  }

  void fit_symmetric(Scales& best, Lanes& least) const noexcept {
    const Lanes largest = extreme(columns_.x, n);
    for (const Lanes scale : {fit_scale<n>(columns_, largest, layout_.codes(), codes_), largest / codes_.high}) {
      const Scales numbers{as_f16(scale)};
      keep_better(numbers, error_of(numbers), best, least);
    }
  }

  void fit_offset(Scales& best, Lanes& least) const noexcept {
    const Line line = fit_line<n>(columns_, layout_.codes(), codes_, false);
    const Scales numbers{as_f16(line.scale), as_f16(line.minimum)};
    keep_better(numbers, error_of(numbers), best, least);
  }

  void fit_super(Scales& best, Lanes& least) const noexcept {
    Scales numbers = fitted_groups();
    Lanes error = choose_integers(numbers);
    for (int round = 0; round < rounds; ++round) {
      Scales next = numbers;
      fit_to_codes(next);
      const Lanes next_error = choose_integers(next);
      keep_better(next, next_error, numbers, error);
    }
    keep_better(numbers, error, best, least);
  }

  Scales fitted_groups() const noexcept {
    Lanes scales[groups], minima[groups];
    for (int g = 0; g < groups; ++g) {
      const Line line = has_minima() ? fit_line<n>(group(g), layout_.codes(), codes_, true)
                                     : Line{fit_scale<n>(group(g), extreme(group(g).x, n), layout_.codes(), codes_), Lanes{}};
      scales[g] = line.scale;
      minima[g] = -line.minimum;
    }
    return in_integers(scales, minima);
  }

  /// The best neighbours of each group's integers. Returns the error of the block.
  Lanes choose_integers(Scales& numbers) const noexcept {
    Lanes sum = {};
    const int around = has_minima() ? 1 : 0;
    for (int g = 0; g < groups; ++g) {
      const Lanes scale = numbers.scales[g], minimum = numbers.minima[g];
      Lanes best_scale = scale, best_minimum = minimum, least = all(std::numeric_limits<float>::infinity());
      for (int s = -1; s <= 1; ++s)
        for (int m = -around; m <= around; ++m) {
          numbers.scales[g] = nearest(scale + static_cast<float>(s), scales_);
          numbers.minima[g] = nearest(minimum + static_cast<float>(m), minima_);
          const Lanes error = error_of(numbers, g);
          const Integers better = error < least;
          least = better ? error : least;
          best_scale = better ? numbers.scales[g] : best_scale;
          best_minimum = better ? numbers.minima[g] : best_minimum;
        }
      numbers.scales[g] = best_scale;
      numbers.minima[g] = best_minimum;
      sum += least;
    }
    return sum;
  }

  /// The block's scale and minimum of least squares for the codes and integers that it has.
  void fit_to_codes(Scales& numbers) const noexcept {
    Lanes aa = {}, ab = {}, bb = {}, xa = {}, xb = {};  // x = scale * a + minimum * b
    for (int g = 0; g < groups; ++g) {
      const Sums sums = sums_of<n>(group(g), inverse_of(scale_of(numbers, g)), minimum_of(numbers, g), codes_);
      const PlainSums plain = plain_sums<n>(group(g));
      const Lanes a = numbers.scales[g], b = -numbers.minima[g];
      aa += a * a * sums.cc;
      ab += a * b * sums.c;
      bb += b * b * plain.w;
      xa += a * sums.xc;
      xb += b * plain.x;
    }
    const Lanes det = aa * bb - ab * ab;
    const Integers both = has_minima() ? det > 0 : Integers{}, one = aa > 0;
    const Lanes alone = as_f16((xa - numbers.minimum * ab) / aa);
    numbers.scale = both ? as_f16((bb * xa - ab * xb) / det) : one ? alone : numbers.scale;
    numbers.minimum = both ? as_f16((aa * xb - ab * xa) / det) : numbers.minimum;
  }

  const BlockLayout& layout_;
  Columns columns_;
  const Limits codes_ = limits_of(layout_.codes()), scales_ = limits_of(layout_.scales()), minima_ = limits_of(layout_.minima());
};

template <int n, int groups>
void fit_lanes_of_blocks(const BlockLayout& layout, std::span<const FitItem> items, Block* blocks) noexcept {
  const SideBySide<n * groups> numbers(items);
  const BlockFit<n, groups> fit(layout, {numbers.x, numbers.w});
  fit.put(fit.best(), {blocks, items.size()});
}

void fit_blocks(const BlockLayout& layout, std::span<const FitItem> items, Block* blocks) {
  const auto fit = layout.groups() == 1   ? fit_lanes_of_blocks<32, 1>
                   : layout.group() == 16 ? fit_lanes_of_blocks<16, 16>
                                          : fit_lanes_of_blocks<32, 8>;
  for (std::size_t first = 0; first < items.size(); first += lanes)
    fit(layout, items.subspan(first, std::min<std::size_t>(lanes, items.size() - first)), blocks + first);
}

}  // namespace

extern const Fits fits;
const Fits fits = {QUERN_FITS_NAME, fit_blocks, fit_groups};

}  // namespace quern::quantize::QUERN_FITS_ISA
