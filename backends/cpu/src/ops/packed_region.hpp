// Products of the same activations with one or several packed matrices: the rows of a are rounded once to what the layouts ask, then
// parts of some panels times all tokens go to the threads. Shared by matmul and by the fusions around it.
//
//   scratch   rounded rows, then for each thread: the kernels' buffer, staged outputs, one row of floats
//   parts     up to 16 tokens: at most 1 MiB or 4 panels of each matrix, which come from memory (a kernel reads ahead in a part, so short
//             parts start cold more often: of a plain read's speed Zen 4 keeps 0.84 with 128 KiB, 0.96 with 512 KiB, all with 2 MiB),
//             and 8 parts or more a thread, so that all end together;
//             more tokens: even blocks of up to 256, which the kernels take whole, times 128 rows, about 1 ms of products: a group of
//             theirs, whose y stays in a second-level cache for what follows. Parts of all matrices are handed out in one loop
// An output has the same bits for any number of tokens, threads and matrices.
#pragma once

#include "matmul_epilogue.hpp"
#include "vectorised.hpp"

#include "../packed/registry.hpp"

#include <algorithm>
#include <span>

namespace quern::cpu {

constexpr std::int64_t region_few_panels = 64, region_rows = 128;  // in one part: at most, for few tokens and for more
constexpr std::int64_t region_tokens = 256;
constexpr std::int64_t region_few_tokens = 16;  // up to which memory is what takes time
constexpr std::int64_t region_part_bytes = 1 << 20;
constexpr std::int64_t region_part_products = 1 << 28;

/// Rows [first_row, first_row + rows) of a product for tokens [first_token, first_token + tokens).
struct PackedTile {
  std::int64_t first_token, tokens, first_row, rows;
};

class PackedRegion {
 public:
  /// matmuls: packed, of one a and one kind of activations, most_matmuls at most. staged: a part may keep its products in scratch.
  PackedRegion(std::span<const Call> matmuls, Isa isa, bool staged) noexcept
      : matmuls_(matmuls),
        isa_(isa),
        set_(isa >= Isa::avx512 ? packed_set_avx512_vnni() : packed_set_avx2()),
        vectors_(vectors_of(isa)),
        shape_(matmul_shape(matmuls[0])),
        kind_(matmuls[0].layout->activations),
        row_bytes_(activation_row_bytes(kind_, shape_.k)) {
    std::int64_t panel_rows = 0, panels = 0;
    for (const Call& matmul : matmuls) {
      const PackedLayout& layout = multiplying_layout(*matmul.layout, isa);
      if (layout.scratch_floats != nullptr) kernel_floats_ = std::max(kernel_floats_, lines(layout.scratch_floats(shape_.k)));
      panel_rows = std::max(panel_rows, layout.panel_rows);
      panels = std::max(panels, panels_of(matmul));
    }
    blocks_ = (shape_.m + region_tokens - 1) / region_tokens;
    part_tokens_ = blocks_ == 0 ? 0 : (shape_.m + blocks_ - 1) / blocks_;
    // Grows with m: scratch is planned for the greatest m, and its layout is that of this one.
    const std::int64_t few = std::min(region_few_panels, panels) * panel_rows * std::min(shape_.m, region_few_tokens);
    const std::int64_t more = std::min(region_rows, panels * panel_rows) * std::min(shape_.m, region_tokens);
    staged_floats_ = staged ? lines(std::max(few, more)) : 0;
    thread_floats_ = kernel_floats_ + staged_floats_ + lines(shape_.k);
  }

  std::int64_t tokens() const noexcept { return shape_.m; }
  const MatmulShape& shape() const noexcept { return shape_; }
  const Vectors& vectors() const noexcept { return vectors_; }
  std::uint64_t scratch_bytes(std::uint32_t threads) const noexcept {
    return static_cast<std::uint64_t>(shape_.m * row_bytes_ + thread_floats_ * 4 * threads);
  }
  /// Where a part of this thread may stage its products.
  float* staged(Context& context, std::uint32_t thread) const noexcept { return own(context, thread) + kernel_floats_; }

  /// Rounds the rows of batch `batch` of a; with `norm`, an rms_norm of packed f32 rows whose y is a, what that gives, and stores
  /// it where it has memory.
  void round_rows(Context& context, std::int64_t batch, const Call* norm) const noexcept {
    const std::int64_t k = shape_.k;
    context.parallel(shape_.m, rows_a_part(k, 4096), [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      float* buffer = own(context, thread) + kernel_floats_ + staged_floats_;
      for (std::int64_t t = begin; t < end; ++t) {
        std::byte* to = context.scratch() + t * row_bytes_;
        float* target = kind_ == Activations::f32 ? reinterpret_cast<float*>(to) : buffer;
        const float* row = norm != nullptr ? normed_row(*norm, t, target) : plain_row(batch, t, target);
        if (kind_ != Activations::f32) set_.quantise(kind_, row, k, 1, k, to);
        else if (row != target) __builtin_memcpy(target, row, static_cast<std::size_t>(k) * 4);
      }
    });
  }

  /// Calls body(matmul, tile, thread) for parts of all rows of `matmuls`, which are some of the region's; a body multiplies its tile and
  /// stores it. together: how many matrices it multiplies with the same rows, 1 or 2.
  template <typename Body>
  void each_part(Context& context, std::span<const Call> matmuls, std::int64_t together, const Body& body) const noexcept {
    std::int64_t all = 0, parts = 0;
    for (const Call& matmul : matmuls) all += panels_of(matmul);
    struct Slice {
      std::int64_t end, part;
    } slices[most_matmuls];
    for (std::size_t i = 0; i < matmuls.size(); ++i) {
      slices[i].part = panels_a_part(*matmuls[i].layout, all, together, context.thread_count());
      slices[i].end = parts += (panels_of(matmuls[i]) + slices[i].part - 1) / slices[i].part;
    }
    context.parallel(parts * blocks_, 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
      for (std::int64_t at = begin; at < end; ++at) {
        // Blocks of one part follow each other: its panels are in cache.
        const std::int64_t i = at / blocks_, token = at % blocks_ * part_tokens_;
        std::size_t which = 0;
        while (i >= slices[which].end) ++which;
        const Call& matmul = matmuls[which];
        const PackedLayout& layout = *matmul.layout;
        const std::int64_t first = (i - (which == 0 ? 0 : slices[which - 1].end)) * slices[which].part;
        const std::int64_t panels = std::min(slices[which].part, panels_of(matmul) - first), row = first * layout.panel_rows;
        const std::int64_t rows = std::min(panels * layout.panel_rows, matmul_shape(matmul).n - row);
        body(matmul, PackedTile{token, std::min(part_tokens_, shape_.m - token), row, rows}, thread);
      }
    });
  }

  /// y[token][row] = the tile's products, y_stride floats apart.
  void multiply(Context& context, std::uint32_t thread, const Call& matmul, const PackedTile& tile, float* y,
                std::int64_t y_stride) const noexcept {
    // Tiles give the bits of vectors, so the number of tokens may decide.
    const PackedLayout& layout =
        multiplying_layout(*matmul.layout, isa_ == Isa::amx && tile.tokens < context.tiles_from() ? Isa::avx512 : isa_);
    PackedPart part{};
    part.panels = bytes_of(matmul.input(1)) + tile.first_row / layout.panel_rows * layout.panel_bytes(shape_.k);
    part.panel_count = packed_panels(layout, tile.rows);
    part.rows = tile.rows;
    part.k = shape_.k;
    part.activations = context.scratch() + tile.first_token * row_bytes_;
    part.tokens = tile.tokens;
    part.y = y;
    part.y_stride = y_stride;
    part.scratch = own(context, thread);
    layout.multiply(part);
  }

  /// Multiplies a tile and stores it by the matmul's own epilogue. Staged where that changes the products.
  void multiply_and_store(Context& context, std::uint32_t thread, const Call& matmul, const PackedTile& tile,
                          std::int64_t batch) const noexcept {
    const Tensor& y = matmul.output(0);
    if (matmul_stages_y(matmul)) {
      float* to = staged(context, thread);
      multiply(context, thread, matmul, tile, to, tile.rows);
      matmul_finish(matmul, to, tile.rows, batch, tile.first_token, tile.tokens, tile.first_row, tile.rows);
    } else {
      std::byte* to = matmul_batch(y, matmul.input(0), batch) + tile.first_token * y.stride_from_end(1);
      multiply(context, thread, matmul, tile, reinterpret_cast<float*>(to) + tile.first_row, y.stride_from_end(1) / 4);
    }
  }

  static constexpr std::size_t most_matmuls = 4;

 private:
  static std::int64_t lines(std::int64_t floats) noexcept { return (floats + 15) / 16 * 16; }
  float* own(Context& context, std::uint32_t thread) const noexcept {
    return reinterpret_cast<float*>(context.scratch() + shape_.m * row_bytes_) + thread * thread_floats_;
  }
  static std::int64_t panels_of(const Call& matmul) noexcept { return packed_panels(*matmul.layout, matmul_shape(matmul).n); }

  /// `all`: panels that are cut.
  std::int64_t panels_a_part(const PackedLayout& layout, std::int64_t all, std::int64_t together, std::uint32_t threads) const noexcept {
    if (shape_.m <= region_few_tokens) {
      const std::int64_t by_memory = std::max<std::int64_t>(4, region_part_bytes / layout.panel_bytes(shape_.k));  // floats: four at a time
      const std::int64_t step = std::max<std::int64_t>(1, 16 / layout.panel_rows);                                 // 16 rows: a line of y
      return std::clamp<std::int64_t>(std::min<std::int64_t>(by_memory, all / (8 * threads)) / step * step, step,
                                      region_few_panels / together);
    }
    std::int64_t part = region_rows / layout.panel_rows;
    const auto too_large = [&] {
      return part * layout.panel_rows * shape_.k * part_tokens_ * together > region_part_products || all * blocks_ < part * threads * 8;
    };
    while (part > 2 && too_large()) part /= 2;
    return part;
  }

  /// Row t of a as packed floats: where it lies, or converted into `target`.
  const float* plain_row(std::int64_t batch, std::int64_t t, float* target) const noexcept {
    const Tensor& a = matmuls_[0].input(0);
    const std::byte* from = matmul_batch(a, a, batch) + t * a.stride_from_end(1);
    if (has_packed_rows(a) && a.dtype == QUERN_F32) return reinterpret_cast<const float*>(from);
    if (has_packed_rows(a)) vectors_.to_floats(a.dtype, from, shape_.k, target);
    else load_floats(from, a.dtype, a.stride_from_end(0), 0, shape_.k, target);
    return target;
  }
  const float* normed_row(const Call& norm, std::int64_t t, float* target) const noexcept {
    const Tensor &x = norm.input(0), &weight = norm.input(1), &y = norm.output(0);
    float* to = y.data != 0 ? reinterpret_cast<float*>(row_pointer(y, t)) : target;
    const auto* factors = weight.present() ? sdk::at<const float>(weight.data) : nullptr;
    const auto offset = static_cast<float>(norm.real(QUERN_KEY_WEIGHT_OFFSET)), epsilon = static_cast<float>(norm.real(QUERN_KEY_EPSILON));
    vectors_.rms_norm(reinterpret_cast<const float*>(row_pointer(x, t)), factors, offset, epsilon, shape_.k, to);
    return to;
  }

  std::span<const Call> matmuls_;
  Isa isa_;
  const PackedSet& set_;
  const Vectors& vectors_;
  MatmulShape shape_;
  Activations kind_;
  std::int64_t row_bytes_, blocks_ = 0, part_tokens_ = 0, kernel_floats_ = 0, staged_floats_ = 0, thread_floats_ = 0;
};

}  // namespace quern::cpu
