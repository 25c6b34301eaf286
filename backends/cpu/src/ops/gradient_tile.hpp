// Gradients of softmax attention, with the probabilities computed again from lse: what attention_backward and its like over packed examples
// are made of.
//
// With P = exp(s - lse), d = dy . y and dP = dy v^T: dv = P^T dy, dS = P (dP - d), through softcap and scale, dq = dS k, dk = dS^T q.
//
//   tiles    64 queries x 64 keys of one head: scores and dP by matmul, the three products by accumulate
//   passes   d for all rows; then each block of keys of a kv head goes over all queries of its heads (dk, dv); then each block of queries
//            goes over the keys (dq)
//   order    one thread makes an output, in a fixed order, so threads change no bit. The price is 7 products a tile; one pass with shared
//            sums would need 5
//   memory   d, and tiles for each thread: linear in the rows
//   hidden   what a query does not see has a P of exactly 0. Where a tile is not seen in full and holds a number that is not finite,
//            rows are multiplied without what they do not see, which leaves the bits of finite rows alone
#pragma once

#include "alibi.hpp"
#include "dense_attention.hpp"
#include "matmul_rows.hpp"

#include <bit>
#include <limits>
#include <tuple>

namespace quern::cpu {

constexpr std::int64_t gradient_tile = accumulate_block;

/// The inputs of attention_backward.
enum { q_in, k_in, v_in, y_in, lse_in, dy_in, mask_in, sinks_in };

struct GradientSizes {
  std::int64_t batch, queries, keys, heads, kv_heads, group, d, dv;  // d and dv are padded to 32
};
inline GradientSizes gradient_sizes(const Call& call) noexcept {
  const Tensor &q = call.input(q_in), &k = call.input(k_in), &v = call.input(v_in);
  return {q.dims[0], q.dims[1], k.dims[1], q.dims[2], k.dims[2], q.dims[2] / k.dims[2], padded(q.dims[3]), padded(v.dims[3])};
}

/// Floats of scratch: d of every row, then a tile for each thread.
inline std::int64_t row_dot_floats(const Call& call) noexcept { return (call.input(q_in).rows() + 15) / 16 * 16; }
inline std::int64_t gradient_tile_floats(const GradientSizes& s) noexcept {
  return 3 * gradient_tile * (s.d + s.dv) + gradient_tile * std::max(s.d, s.dv) + 2 * gradient_tile * gradient_tile + 2 * gradient_tile +
         matmul_buffer_floats();
}

inline std::uint64_t gradient_scratch(const Call& call) noexcept {
  return static_cast<std::uint64_t>(row_dot_floats(call) + gradient_tile_floats(gradient_sizes(call)) * call.thread_count) * 4;
}

/// Rows of one head from memory, padded with zeros.
struct GradientRows {
  float* data;
  std::int64_t stride;
  std::int64_t rows;
  bool finite;
};

inline bool all_finite(const float* x, std::int64_t n) noexcept {
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < n; ++i) bad |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  return bad == 0;
}

class GradientTile {
 public:
  GradientTile(const Call& call, const Vectors& vectors, const float* row_dots, float* memory) noexcept
      : call_(call),
        vectors_(vectors),
        sizes_(gradient_sizes(call)),
        shape_(score_shape(call.input(q_in), call.input(k_in))),
        row_dots_(row_dots),
        scale_(static_cast<float>(call.real(QUERN_KEY_SCALE))),
        cap_(static_cast<float>(call.real(QUERN_KEY_SOFTCAP))) {
    const auto take = [&memory](std::int64_t count) { return (memory += count, memory - count); };
    q_ = {take(gradient_tile * sizes_.d), sizes_.d, 0, true};
    dy_ = {take(gradient_tile * sizes_.dv), sizes_.dv, 0, true};
    k_ = {take(gradient_tile * sizes_.d), sizes_.d, 0, true};
    v_ = {take(gradient_tile * sizes_.dv), sizes_.dv, 0, true};
    sum_d_ = take(gradient_tile * sizes_.d);
    sum_dv_ = take(gradient_tile * sizes_.dv);
    compact_ = take(gradient_tile * std::max(sizes_.d, sizes_.dv));
    p_ = take(gradient_tile * gradient_tile);
    ds_ = take(gradient_tile * gradient_tile);
    mask_row_ = take(gradient_tile);
    cap_slopes_ = take(gradient_tile);
    buffer_ = memory;
  }

  /// dk and dv of keys [first, first + 64) of a kv head.
  void make_keys(std::int64_t batch, std::int64_t kv_head, std::int64_t first, const Context& context) noexcept {
    load_keys(batch, kv_head, first);
    std::fill_n(sum_d_, gradient_tile * sizes_.d, 0.0f);
    std::fill_n(sum_dv_, gradient_tile * sizes_.dv, 0.0f);
    for (std::int64_t head = kv_head * sizes_.group; head < (kv_head + 1) * sizes_.group; ++head)
      for (std::int64_t query = 0; query < sizes_.queries && !context.cancelled(); query += gradient_tile) {
        if (!sees(query, first)) continue;
        load_queries(batch, head, query);
        make_tile(batch, head, query, first);
        add({p_, 1, gradient_tile, dy_.data, dy_.stride, sum_dv_, sizes_.dv, nullptr, k_.rows, q_.rows, sizes_.dv}, dy_.finite);
        add({ds_, 1, gradient_tile, q_.data, q_.stride, sum_d_, sizes_.d, nullptr, k_.rows, q_.rows, sizes_.d}, q_.finite);
      }
    store_block(call_.output(1), batch, first, kv_head, sum_d_, sizes_.d, k_.rows);
    store_block(call_.output(2), batch, first, kv_head, sum_dv_, sizes_.dv, k_.rows);
  }

  /// dq of queries [first, first + 64) of a head.
  void make_queries(std::int64_t batch, std::int64_t head, std::int64_t first, const Context& context) noexcept {
    load_queries(batch, head, first);
    std::fill_n(sum_d_, gradient_tile * sizes_.d, 0.0f);
    for (std::int64_t key = 0; key < sizes_.keys && !context.cancelled(); key += gradient_tile) {
      if (!sees(first, key)) continue;
      load_keys(batch, head / sizes_.group, key);
      make_tile(batch, head, first, key);
      add({ds_, gradient_tile, 1, k_.data, k_.stride, sum_d_, sizes_.d, nullptr, q_.rows, k_.rows, sizes_.d}, k_.finite);
    }
    store_block(call_.output(0), batch, first, head, sum_d_, sizes_.d, q_.rows);
  }

 private:
  /// Does any of the 64 queries from `query` on see one of the 64 keys from `key` on, masks aside?
  bool sees(std::int64_t query, std::int64_t key) const noexcept {
    const std::int64_t last = std::min(sizes_.queries, query + gradient_tile) - 1;
    return visible_keys(call_, last, sizes_.keys).end > key && visible_keys(call_, query, sizes_.keys).first < key + gradient_tile;
  }

  void load_block(const Tensor& x, std::int64_t batch, std::int64_t first, std::int64_t head, GradientRows& block) noexcept {
    block.rows = std::min(gradient_tile, x.dims[1] - first);
    for (std::int64_t r = 0; r < block.rows; ++r)
      pack_activations(vectors_, x.dtype, bytes_of(x) + batch * x.strides[0] + (first + r) * x.strides[1] + head * x.strides[2],
                       x.strides[3], x.dims[3], block.data + r * block.stride);
    block.finite = all_finite(block.data, block.rows * block.stride);
  }
  void load_queries(std::int64_t batch, std::int64_t head, std::int64_t first) noexcept {
    load_block(call_.input(q_in), batch, first, head, q_);
    load_block(call_.input(dy_in), batch, first, head, dy_);
  }
  void load_keys(std::int64_t batch, std::int64_t kv_head, std::int64_t first) noexcept {
    load_block(call_.input(k_in), batch, first, kv_head, k_);
    load_block(call_.input(v_in), batch, first, kv_head, v_);
  }
  static void store_block(const Tensor& x, std::int64_t batch, std::int64_t first, std::int64_t head, const float* from,
                          std::int64_t stride, std::int64_t rows) noexcept {
    for (std::int64_t r = 0; r < rows; ++r)
      store_floats(bytes_of(x) + batch * x.strides[0] + (first + r) * x.strides[1] + head * x.strides[2], x.dtype, x.strides[3], 0,
                   x.dims[3], from + r * stride);
  }

  /// y[query][key] = a . w, for the rows of both.
  void multiply(const GradientRows& a, const GradientRows& w, float* y) noexcept {
    MatmulPart part{};
    part.dtype = QUERN_F32;
    part.w = reinterpret_cast<const std::byte*>(w.data);
    part.w_stride = w.stride * 4;
    part.rows = w.rows;
    part.a = a.data;
    part.a_stride = a.stride;
    part.tokens = a.rows;
    part.k = a.stride;
    part.y = y;
    part.y_stride = gradient_tile;
    part.buffer = buffer_;
    vectors_.matmul(part);
  }

  /// P and dS, which holds scale and softcap, of the tile at (query, key).
  void make_tile(std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key) noexcept {
    multiply(q_, k_, p_);
    multiply(dy_, v_, ds_);
    whole_ = !call_.input(mask_in).present();
    for (std::int64_t i = 0; i < q_.rows; ++i) {
      const std::int64_t row = (batch * sizes_.queries + query + i) * sizes_.heads + head;
      const KeyRange seen = visible_keys(call_, query + i, sizes_.keys);
      const std::int64_t low = std::clamp<std::int64_t>(seen.first - key, 0, k_.rows),
                         high = std::clamp<std::int64_t>(seen.end - key, low, k_.rows);
      const float lse = load_scalar(call_.input(lse_in), row);
      float *p = p_ + i * gradient_tile, *ds = ds_ + i * gradient_tile;
      const bool nothing = low == high || lse == -std::numeric_limits<float>::infinity();
      if (nothing || low > 0 || high < k_.rows) whole_ = false;
      std::fill_n(p, nothing ? k_.rows : low, 0.0f);
      std::fill_n(ds, nothing ? k_.rows : low, 0.0f);
      if (nothing) continue;
      std::fill(p + high, p + k_.rows, 0.0f);
      std::fill(ds + high, ds + k_.rows, 0.0f);
      make_probabilities(p, low, high, lse, batch, head, query + i, key);
      vectors_.softmax_backward(p + low, ds + low, row_dots_[row], scale_, high - low, ds + low);
      if (cap_ > 0.0f)
        for (std::int64_t j = low; j < high; ++j) ds[j] = p[j] == 0.0f ? 0.0f : ds[j] * cap_slopes_[j];
    }
  }

  /// Scores [low, high) of a row become probabilities.
  void make_probabilities(float* p, std::int64_t low, std::int64_t high, float lse, std::int64_t batch, std::int64_t head,
                          std::int64_t query, std::int64_t key) noexcept {
    const Tensor& mask = call_.input(mask_in);
    const std::int64_t n = high - low;
    vectors_.scale(p + low, scale_, n, p + low);
    if (cap_ > 0.0f)
      for (std::int64_t j = low; j < high; ++j) {
        const float t = std::tanh(p[j] / cap_);
        p[j] = cap_ * t;
        cap_slopes_[j] = 1.0f - t * t;
      }
    if (!mask.present()) {
      vectors_.exp_sum(p + low, lse, n, p + low);
      return;
    }
    const std::int64_t row = (batch * sizes_.heads + head) * sizes_.queries + query;
    load_floats(broadcast_row_pointer(mask, shape_, row), mask.dtype, mask.stride_from_end(0), key + low, n, mask_row_ + low);
    const bool bytes = mask.dtype == QUERN_U8;
    const float slope = alibi_slope(call_.real(QUERN_KEY_MAX_BIAS), head, sizes_.heads);
    if (!bytes)
      for (std::int64_t j = low; j < high; ++j) p[j] += slope * mask_row_[j];
    vectors_.exp_sum(p + low, lse, n, p + low);
    for (std::int64_t j = low; j < high; ++j)
      if (mask_row_[j] == (bytes ? 0.0f : -std::numeric_limits<float>::infinity())) p[j] = 0.0f;
  }

  /// accumulate, but a weight of 0 does not touch what is not finite.
  void add(const AccumulatePart& part, bool finite) noexcept {
    if (finite || whole_) return vectors_.accumulate(part);
    float weights[gradient_tile];
    for (std::int64_t r = 0; r < part.rows; ++r) {
      AccumulatePart row = part;
      row.rows = 1;
      row.depth = 0;
      for (std::int64_t j = 0; j < part.depth; ++j) {
        const float weight = part.w[r * part.w_row + j * part.w_step];
        if (weight == 0.0f) continue;
        weights[row.depth] = weight;
        std::copy_n(part.x + j * part.x_stride, part.columns, compact_ + row.depth * part.columns);
        ++row.depth;
      }
      row.w = weights;
      row.w_step = 1;
      row.x = compact_;
      row.x_stride = part.columns;
      row.y = part.y + r * part.y_stride;
      vectors_.accumulate(row);
    }
  }

  const Call& call_;
  const Vectors& vectors_;
  GradientSizes sizes_;
  Tensor shape_;
  const float* row_dots_;
  float scale_, cap_;
  GradientRows q_{}, dy_{}, k_{}, v_{};
  float *sum_d_, *sum_dv_, *compact_, *p_, *ds_, *mask_row_, *cap_slopes_, *buffer_;
  bool whole_ = false;  // every query of the tile sees every key
};

/// dy . y of each row.
inline void make_row_dots(const Tensor& y, const Tensor& dy, Context& context, const Vectors& vectors, float* dots) noexcept {
  const std::int64_t n = y.last();
  context.parallel(y.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr std::int64_t part = 512;
    float left[part], right[part];
    for (std::int64_t row = begin; row < end; ++row) {
      dots[row] = 0.0f;
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        dots[row] +=
            vectors.dot(part_floats(vectors, y, row, first, count, left), part_floats(vectors, dy, row, first, count, right), count);
      }
    }
  });
}

}  // namespace quern::cpu
