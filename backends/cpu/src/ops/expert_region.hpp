// Products of rows with the packed weights of chosen experts. Shared by matmul_id and by the fusion around it.
//
// The pairs (token, place among its experts) are sorted by expert. Each row of a is rounded once and copied to the places of its pairs, so
// that the rows of an expert follow each other, and the kernels of plain products take them as they are. A part is some panels of one
// expert against a block of up to 256 of its rows.
//
//   scratch   lists, rounded rows in sorted order, then for each thread: the kernels' buffer, staged products, one row of floats
//   parts     where no expert has more than 16 rows, memory takes the time: parts have equal bytes of weights, 1 MiB at most, 8 of them a
//             thread; else up to 128 rows of weights as in packed_region.hpp, and blocks of one part follow each other
// An output has the bits of a plain packed product of its two rows, for any other rows, experts and threads.
#pragma once

#include "map_rows.hpp"
#include "packed_region.hpp"
#include "row_groups.hpp"

#include <algorithm>
#include <span>

namespace quern::cpu {

/// Rows [first_row, first_row + rows) of an expert's product for the pairs at sorted places [first, first + tokens).
struct ExpertTile {
  std::int64_t expert, first, tokens, first_row, rows;
};

class ExpertRegion {
 public:
  /// products: one or two packed matmul_ids of one a, one id and one kind of activations, whose panels have the same rows.
  ExpertRegion(std::span<const Call> products, Isa isa) noexcept
      : products_(products), isa_(isa), set_(isa >= Isa::avx512 ? packed_set_avx512_vnni() : packed_set_avx2()), vectors_(vectors_of(isa)) {
    const Tensor &b = products[0].input(1), &id = products[0].input(2);
    kind_ = products[0].layout->activations;
    experts_ = b.dims[0];
    n_ = b.dims[1];
    k_ = b.dims[2];
    used_ = id.dims[1];
    pairs_ = id.elements();
    row_bytes_ = activation_row_bytes(kind_, k_);
    list_bytes_ = row_groups_bytes(pairs_, experts_) + (pairs_ + experts_ + 7) / 8 * 64;
    std::int64_t panel_rows = 0;
    for (const Call& product : products) {
      const PackedLayout& layout = multiplying_layout(*product.layout, isa);
      if (layout.scratch_floats != nullptr) kernel_floats_ = std::max(kernel_floats_, lines(layout.scratch_floats(k_)));
      panel_rows = layout.panel_rows;
    }
    panels_ = (n_ + panel_rows - 1) / panel_rows;
    // Grows with the number of pairs: scratch is planned for the most.
    const std::int64_t few = std::min(region_few_panels, panels_) * panel_rows * std::min(pairs_, region_few_tokens);
    const std::int64_t more = std::min(region_rows, panels_ * panel_rows) * std::min(pairs_, region_tokens);
    staged_floats_ = lines(std::max(few, more));
    thread_floats_ = kernel_floats_ + staged_floats_ * static_cast<std::int64_t>(products.size()) + lines(k_);
  }

  const Vectors& vectors() const noexcept { return vectors_; }
  std::uint64_t scratch_bytes(std::uint32_t threads) const noexcept {
    return static_cast<std::uint64_t>(list_bytes_ + pairs_ * row_bytes_ + thread_floats_ * 4 * threads);
  }
  /// Where a part of this thread may stage its products with weights `which`.
  float* staged(Context& context, std::uint32_t thread, std::size_t which = 0) const noexcept {
    return own(context, thread) + kernel_floats_ + staged_floats_ * static_cast<std::int64_t>(which);
  }

  /// Sorts the pairs, writes zeros to rows of y whose pair has no expert, and rounds the rows of a.
  void prepare(Context& context, const Tensor& y) noexcept {
    const Tensor &a = products_[0].input(0), &id = products_[0].input(2);
    const auto stray = [&](std::int64_t expert) {
      if (expert != -1) context.fault(QUERN_FAULT_INDEX_RANGE);
    };
    groups_ = group_rows(
        id, experts_, context.scratch(), [](std::int64_t) { return true; }, stray);
    places_ = reinterpret_cast<std::int64_t*>(context.scratch() + row_groups_bytes(pairs_, experts_));
    part_ends_ = places_ + pairs_;
    const std::int64_t given = groups_.starts[experts_];
    if (given < pairs_) std::fill_n(places_, pairs_, -1);
    for (std::int64_t place = 0; place < given; ++place) places_[groups_.order[place]] = place;
    for (std::int64_t pair = 0; given < pairs_ && pair < pairs_; ++pair)
      if (places_[pair] < 0) store_zeros(y, pair);
    const std::int64_t copies = a.dims[1] == 1 ? used_ : 1;  // pairs that read one row of a
    context.parallel(pairs_ / copies, rows_a_part(k_, 4096), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      for (std::int64_t row = begin; row < end; ++row) round_row(context, row, copies, thread);
    });
  }

  /// Calls body(tile, thread) for parts of the products of all chosen experts. After prepare.
  template <typename Body>
  void each_part(Context& context, const Body& body) const noexcept {
    const PackedLayout& layout = *products_[0].layout;
    std::int64_t most = 0;
    for (std::int64_t c = 0; c < groups_.chosen_count; ++c) most = std::max(most, groups_.count(groups_.chosen[c]));
    const std::int64_t part = panels_a_part(layout, std::min(most, region_tokens), context.thread_count()),
                       slices = (panels_ + part - 1) / part;
    std::int64_t parts = 0;
    for (std::int64_t c = 0; c < groups_.chosen_count; ++c) part_ends_[c] = parts += slices * blocks_of(groups_.count(groups_.chosen[c]));
    context.parallel(parts, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t c = std::upper_bound(part_ends_, part_ends_ + groups_.chosen_count, at) - part_ends_;
        const std::int64_t expert = groups_.chosen[c], count = groups_.count(expert), blocks = blocks_of(count),
                           block = (count + blocks - 1) / blocks;
        const std::int64_t i = at - (c == 0 ? 0 : part_ends_[c - 1]), token = i % blocks * block, panel = i / blocks * part;
        const std::int64_t row = panel * layout.panel_rows, rows = std::min(part * layout.panel_rows, n_ - row);
        if (token < count) body(ExpertTile{expert, groups_.first(expert) + token, std::min(block, count - token), row, rows}, thread);
      }
    });
  }

  /// y[token][row] = the tile's products with the weights of product `which`, y_stride floats apart.
  void multiply(Context& context, std::uint32_t thread, std::size_t which, const ExpertTile& tile, float* y,
                std::int64_t y_stride) const noexcept {
    const Tensor& b = products_[which].input(1);
    // Tiles give the bits of vectors, so the number of rows may decide.
    const PackedLayout& layout =
        multiplying_layout(*products_[which].layout, isa_ == Isa::amx && tile.tokens < context.tiles_from() ? Isa::avx512 : isa_);
    PackedPart part{};
    part.panels = bytes_of(b) + (tile.expert * panels_ + tile.first_row / layout.panel_rows) * layout.panel_bytes(k_);
    part.panel_count = packed_panels(layout, tile.rows);
    part.rows = tile.rows;
    part.k = k_;
    part.activations = rounded(context, tile.first);
    part.tokens = tile.tokens;
    part.y = y;
    part.y_stride = y_stride;
    part.scratch = own(context, thread);
    layout.multiply(part);
  }

  /// Where the rows of a tile of one row may be written as they are; null: they are staged.
  float* single_row(const Tensor& y, const ExpertTile& tile) const noexcept {
    if (tile.tokens != 1 || y.dtype != QUERN_F32 || !has_packed_rows(y)) return nullptr;
    return reinterpret_cast<float*>(row_pointer(y, groups_.order[tile.first])) + tile.first_row;
  }
  /// Stores the tile's products, packed at `from`, to the rows of their pairs.
  void store(const Tensor& y, const ExpertTile& tile, const float* from) const noexcept {
    for (std::int64_t t = 0; t < tile.tokens; ++t)
      store_row(y, groups_.order[tile.first + t], tile.first_row, tile.rows, from + t * tile.rows);
  }

 private:
  static std::int64_t lines(std::int64_t floats) noexcept { return (floats + 15) / 16 * 16; }
  static std::int64_t blocks_of(std::int64_t tokens) noexcept { return (tokens + region_tokens - 1) / region_tokens; }
  std::byte* rounded(Context& context, std::int64_t place) const noexcept { return context.scratch() + list_bytes_ + place * row_bytes_; }
  float* own(Context& context, std::uint32_t thread) const noexcept {
    return reinterpret_cast<float*>(rounded(context, pairs_)) + thread * thread_floats_;
  }

  /// `most`: rows of the expert that has the most of them, at most a block.
  std::int64_t panels_a_part(const PackedLayout& layout, std::int64_t most, std::uint32_t threads) const noexcept {
    const std::int64_t all = panels_ * groups_.chosen_count, together = static_cast<std::int64_t>(products_.size());
    if (most <= region_few_tokens) {
      const std::int64_t by_memory = std::max<std::int64_t>(4, region_part_bytes / layout.panel_bytes(k_));
      const std::int64_t step = std::max<std::int64_t>(1, 16 / layout.panel_rows);  // 16 rows: a line of y
      const std::int64_t wanted = std::clamp<std::int64_t>(std::min<std::int64_t>(by_memory, all / (8 * threads)) / step * step, step,
                                                           region_few_panels / together);
      const std::int64_t slices = (panels_ + wanted - 1) / wanted;
      return (panels_ + slices - 1) / slices;  // an expert's parts are alike
    }
    std::int64_t part = region_rows / layout.panel_rows;
    while (part > 2 && (part * layout.panel_rows * k_ * most * together > region_part_products || all < part * threads * 8)) part /= 2;
    return part;
  }

  /// Rounds row `row` of a to the places of its `copies` pairs.
  void round_row(Context& context, std::int64_t row, std::int64_t copies, std::uint32_t thread) const noexcept {
    const std::byte* made = nullptr;
    for (std::int64_t pair = row * copies; pair < (row + 1) * copies; ++pair) {
      if (places_[pair] < 0) continue;
      std::byte* to = rounded(context, places_[pair]);
      if (made != nullptr) {
        __builtin_memcpy(to, made, static_cast<std::size_t>(row_bytes_));
        continue;
      }
      made = to;
      float* target = kind_ == Activations::f32 ? reinterpret_cast<float*>(to) : staged(context, thread, products_.size());
      const float* floats = row_floats(vectors_, products_[0].input(0), row, target);
      if (kind_ != Activations::f32) set_.quantise(kind_, floats, k_, 1, k_, to);
      else if (floats != target) __builtin_memcpy(target, floats, static_cast<std::size_t>(k_) * 4);
    }
  }

  std::span<const Call> products_;
  Isa isa_;
  const PackedSet& set_;
  const Vectors& vectors_;
  Activations kind_{};
  std::int64_t experts_ = 0, n_ = 0, k_ = 0, used_ = 0, pairs_ = 0, panels_ = 0;
  std::int64_t row_bytes_ = 0, list_bytes_ = 0, kernel_floats_ = 0, staged_floats_ = 0, thread_floats_ = 0;
  RowGroups groups_{};
  std::int64_t *places_ = nullptr, *part_ends_ = nullptr;
};

}  // namespace quern::cpu
