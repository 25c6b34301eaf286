// Softmax attention of a tile of queries over dense keys and values: what attention_dense and attention_ragged are made of.
//
//   tiles    the rows of all heads of a kv head, some 96 of them, x 64 keys. simd/attention.cpp makes scores, probabilities and weighted
//            values, and carries a row's largest score and its sums from block to block
//   hidden   a hidden key's score is replaced and its value not read. A mask that hides keys from an end of a block shortens the row's
//            range. Only holes inside cost more
//
// A sink is in lse, since it takes mass; a row that sees no key is zeros, with the sink or -inf as its lse.
#pragma once

#include "alibi.hpp"
#include "dense_attention.hpp"
#include "map_rows.hpp"
#include "matmul_rows.hpp"

#include <limits>

namespace quern::cpu {

constexpr float dense_hidden = -std::numeric_limits<float>::infinity();
constexpr std::int64_t dense_rows = 96;  // of a tile, where the heads of a kv head are not more

/// Sizes of a tile; d and dv are padded.
struct DenseSizes {
  std::int64_t group, queries, rows, d, dv;
};
inline DenseSizes dense_sizes(const Call& call) noexcept {
  const std::int64_t group = call.input(0).dims[2] / call.input(1).dims[2];
  const std::int64_t queries = std::clamp<std::int64_t>(dense_rows / group, 1, attention_block);
  return {group, queries, group * queries, padded(call.input(0).dims[3]), padded(call.input(2).dims[3])};
}
inline std::int64_t dense_floats(const DenseSizes& s) noexcept {
  return s.rows * (s.d + s.dv + attention_block + 4) + attention_block * (2 * s.d + s.dv + 1);
}

/// Bytes: a tile for each thread.
inline std::uint64_t dense_scratch(const Call& call) noexcept {
  return static_cast<std::uint64_t>(dense_floats(dense_sizes(call))) * 4 * call.thread_count;
}

/// Some queries of all heads of a kv head. Row r is query r % queries_ of head r / queries_ of the group.
class DenseTile {
 public:
  DenseTile(const Call& call, const Vectors& vectors, float* memory) noexcept
      : call_(call),
        vectors_(vectors),
        sizes_(dense_sizes(call)),
        shape_(score_shape(call.input(0), call.input(1))),
        scale_(static_cast<float>(call.real(QUERN_KEY_SCALE))),
        cap_(static_cast<float>(call.real(QUERN_KEY_SOFTCAP))) {
    const auto take = [&memory](std::int64_t count) { return (memory += count, memory - count); };
    q_ = take(sizes_.rows * sizes_.d);
    output_ = take(sizes_.rows * sizes_.dv);
    scores_ = take(sizes_.rows * attention_block);
    keys_ = take(attention_block * sizes_.d);
    turned_ = take(attention_block * sizes_.d);
    values_ = take(attention_block * sizes_.dv);
    mask_ = take(attention_block);
    maximum_ = take(sizes_.rows);
    sum_ = take(sizes_.rows);
    low_ = reinterpret_cast<std::int32_t*>(take(sizes_.rows));
    high_ = reinterpret_cast<std::int32_t*>(take(sizes_.rows));
  }

  /// Queries from `first` on of the heads of a kv head.
  void run(std::int64_t batch, std::int64_t kv_head, std::int64_t first, const Context& context) noexcept {
    batch_ = batch;
    kv_head_ = kv_head;
    first_ = first;
    queries_ = std::min(sizes_.queries, shape_.dims[2] - first);
    rows_ = queries_ * sizes_.group;
    for (std::int64_t r = 0; r < rows_; ++r) load(call_.input(0), first_ + query_of(r), head_of(r), q_ + r * sizes_.d);
    std::fill_n(output_, rows_ * sizes_.dv, 0.0f);
    std::fill_n(maximum_, rows_, dense_hidden);
    std::fill_n(sum_, rows_, 0.0f);
    const std::int64_t begin = visible_keys(call_, first_, shape_.dims[3]).first,
                       end = visible_keys(call_, first_ + queries_ - 1, shape_.dims[3]).end;
    for (std::int64_t block = begin / attention_block * attention_block; block < end && !context.cancelled(); block += attention_block)
      add_block(block, std::max<std::int64_t>(0, begin - block), std::min(attention_block, end - block));
    for (std::int64_t r = 0; r < rows_; ++r) finish(r);
  }

 private:
  std::int64_t query_of(std::int64_t row) const noexcept { return row % queries_; }
  std::int64_t head_of(std::int64_t row) const noexcept { return kv_head_ * sizes_.group + row / queries_; }

  void load(const Tensor& x, std::int64_t position, std::int64_t head, float* to) const noexcept {
    pack_activations(vectors_, x.dtype, bytes_of(x) + batch_ * x.strides[0] + position * x.strides[1] + head * x.strides[2], x.strides[3],
                     x.dims[3], to);
  }

  /// Keys block + begin .. block + end, outside which no row sees any.
  void add_block(std::int64_t block, std::int64_t begin, std::int64_t end) noexcept {
    for (std::int64_t j = begin; j < end; ++j) load(call_.input(1), block + j, kv_head_, keys_ + j * sizes_.d);
    vectors_.turn_keys(keys_, begin, end, sizes_.d, turned_);
    vectors_.attention_scores({turned_, sizes_.d, begin, end, q_, rows_, scale_, scores_});
    bool seen = false, holes = false;
    for (std::int64_t r = 0; r < rows_; ++r) {
      const KeyRange range = visible_keys(call_, first_ + query_of(r), shape_.dims[3]);
      std::int64_t low = std::max(range.first - block, begin), high = std::min(range.end - block, end);
      finish_scores(r, block, low, high, holes);
      low_[r] = static_cast<std::int32_t>(low);
      high_[r] = static_cast<std::int32_t>(high);
      seen = seen || low < high;
    }
    if (!seen) return;
    for (std::int64_t j = begin; j < end; ++j) load(call_.input(2), block + j, kv_head_, values_ + j * sizes_.dv);
    vectors_.attention({rows_, end, low_, high_, scores_, values_, sizes_.dv, holes, maximum_, sum_, output_});
  }

  /// Softcap, then the mask, for keys [low, high) of the block; hidden keys are -inf, and those at both ends leave the range.
  void finish_scores(std::int64_t row, std::int64_t block, std::int64_t& low, std::int64_t& high, bool& holes) noexcept {
    const Tensor& mask = call_.input(3);
    float* s = scores_ + row * attention_block;
    if (low >= high) return;
    if (cap_ > 0.0f) vectors_.softcap(s + low, cap_, high - low, s + low);
    if (!mask.present()) return;
    const std::int64_t at = (batch_ * shape_.dims[1] + head_of(row)) * shape_.dims[2] + first_ + query_of(row);
    load_floats(broadcast_row_pointer(mask, shape_, at), mask.dtype, mask.stride_from_end(0), block + low, high - low, mask_ + low);
    const bool bytes = mask.dtype == QUERN_U8;
    const float hidden = bytes ? 0.0f : dense_hidden;
    while (low < high && mask_[low] == hidden) ++low;
    while (low < high && mask_[high - 1] == hidden) --high;
    const float slope = bytes ? 0.0f : alibi_slope(call_.real(QUERN_KEY_MAX_BIAS), head_of(row), shape_.dims[1]);
    for (std::int64_t j = low; j < high; ++j) {
      if (mask_[j] == hidden) s[j] = dense_hidden, holes = true;
      else if (!bytes && mask_[j] != 0.0f) s[j] += slope * mask_[j];
    }
  }

  void finish(std::int64_t row) noexcept {
    const Tensor& sinks = call_.input(4);
    const std::int64_t size = call_.input(2).dims[3], head = head_of(row);
    const std::int64_t at = (batch_ * shape_.dims[2] + first_ + query_of(row)) * shape_.dims[1] + head;
    const float sink = sinks.present() ? load_scalar(sinks, head) : dense_hidden, sum = sum_[row];
    float top = std::max(maximum_[row], sink);
    top = top == dense_hidden ? 0.0f : std::min(top, std::numeric_limits<float>::max());
    const float factor = sum == 0.0f ? 0.0f : std::exp(maximum_[row] - top), all = sum * factor + std::exp(sink - top);
    float* out = output_ + row * sizes_.dv;
    if (sum == 0.0f) std::fill_n(out, size, 0.0f);
    else
      for (std::int64_t i = 0; i < size; ++i) out[i] = out[i] * factor / all;
    store_row(call_.output(0), at, 0, size, out);
    if (const Tensor& lse = call_.output(1); lse.present())
      store_scalar(lse, at, static_cast<float>(static_cast<double>(top) + std::log(static_cast<double>(all))));
  }

  const Call& call_;
  const Vectors& vectors_;
  DenseSizes sizes_;
  Tensor shape_;
  float scale_, cap_;
  std::int64_t batch_ = 0, kv_head_ = 0, first_ = 0, queries_ = 0, rows_ = 0;
  float *q_, *output_, *scores_, *keys_, *turned_, *values_, *mask_, *maximum_, *sum_;
  std::int32_t *low_, *high_;
};

}  // namespace quern::cpu
