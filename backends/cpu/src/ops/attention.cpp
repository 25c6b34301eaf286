// Softmax attention over a paged cache.
//
//   task     one kv head and up to 16 neighbouring rows of one sequence, so up to 16 * heads / kv_heads queries share what is decoded
//   blocks   64 positions from a multiple of 64: keys and values become f32 (2 * 64 * d * 4 B, second-level cache), scores and
//            running sums are simd/attention.cpp's. A row's blocks, and so its bits, do not depend on batch
//   unseen   slots behind the last visible position are neither decoded nor read; keys and values that one row of the task does not
//            see never enter that row's sums
// Decode is limited by the bytes of the cache: each is read once for all queries of its kv head.
#include "alibi.hpp"
#include "paged.hpp"
#include "vectorised.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::cpu {
namespace {

constexpr std::int64_t task_rows = 16;      // tokens
constexpr std::int64_t task_queries = 128;  // rows of scores: tokens times query heads of a kv head; those of one token where it has more

struct Shape {
  std::int64_t tokens, heads, kv_heads, group, key_size, value_size, key_padded, value_padded, rows;
};
Shape shape_of(const Call& call) noexcept {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  Shape s{};
  s.tokens = q.dims[0];
  s.heads = q.dims[1];
  s.kv_heads = k.dims[1];
  s.group = s.kv_heads == 0 ? 1 : s.heads / s.kv_heads;
  s.key_size = q.dims[2];
  s.value_size = v.dims[3];
  s.key_padded = (s.key_size + 31) / 32 * 32;
  s.value_padded = (s.value_size + 15) / 16 * 16;
  s.rows = std::clamp<std::int64_t>(task_queries / std::max<std::int64_t>(1, s.group), 1, task_rows);
  return s;
}

Verdict accepts(const Call& call) { return accepts_caches({&call.input(1), &call.input(2)}); }

/// One thread's memory.
struct Work {
  float *keys, *turned_keys, *values, *queries, *scores, *maximum, *sum, *output;
  std::int32_t *low, *high;
};
std::int64_t work_floats(const Shape& s, std::byte* base, Work& w) noexcept {
  const std::int64_t queries = s.rows * s.group;
  std::int64_t at = 0;
  const auto take = [&](std::int64_t count) {
    float* p = base == nullptr ? nullptr : reinterpret_cast<float*>(base) + at;
    at += (count + 15) / 16 * 16;
    return p;
  };
  w.keys = take(attention_block * s.key_padded);
  w.turned_keys = take(attention_block * s.key_padded);
  w.values = take(attention_block * s.value_padded);
  w.queries = take(queries * s.key_padded);
  w.scores = take(queries * attention_block);
  w.maximum = take(queries);
  w.sum = take(queries);
  w.output = take(queries * s.value_padded);
  w.low = reinterpret_cast<std::int32_t*>(take(queries));
  w.high = reinterpret_cast<std::int32_t*>(take(queries));
  return at;
}

std::uint64_t scratch(const Call& call) noexcept {
  Work w{};
  return static_cast<std::uint64_t>(work_floats(shape_of(call), nullptr, w)) * 4 * call.thread_count;
}

/// Keys first .. last that a row sees, by causality, window and length.
struct Range {
  std::int64_t first, end;
};
Range visible(const Call& call, std::int64_t slot, std::int64_t position) noexcept {
  const Tensor& kv_len = call.input(6);
  Range r{0, position + 1};
  if (call.integer(QUERN_KEY_CAUSAL) == 0) r.end = load_integer(kv_len, slot);
  if (const std::int64_t window = call.integer(QUERN_KEY_WINDOW); window > 0) r.first = std::max<std::int64_t>(0, position - window + 1);
  return r;
}

class Task {
 public:
  Task(const Call& call, const Shape& s, const Vectors& vectors, Context& context, Work work) noexcept
      : call_(call), s_(s), vectors_(vectors), context_(context), w_(work) {}

  /// Rows [begin, end) of q and one kv head; rows share a sequence.
  void run(std::int64_t kv_head, std::int64_t begin, std::int64_t end) noexcept {
    begin_ = begin;
    count_ = end - begin;
    head_ = kv_head;
    slot_ = load_integer(call_.input(4), begin);
    load_queries();
    Range all{std::numeric_limits<std::int64_t>::max(), 0};
    bool fault = false;
    for (std::int64_t t = 0; t < count_; ++t) {
      const std::int64_t position = load_integer(call_.input(5), begin + t);
      Range r{0, 0};
      if (position >= 0) {
        if (slot_ < 0 || slot_ >= call_.input(3).dims[0]) fault = true;
        else r = visible(call_, slot_, position);
        if (call_.input(7).present() && r.end > call_.input(7).dims[1]) fault = true, r = {0, 0};
        if (!pages_exist(r)) fault = true, r = {0, 0};
      }
      ranges_[t] = r;
      if (r.first < r.end) all = {std::min(all.first, r.first), std::max(all.end, r.end)};
    }
    if (fault) context_.fault(QUERN_FAULT_INDEX_RANGE);
    for (std::int64_t block = all.first / attention_block * attention_block; block < all.end && !context_.cancelled();
         block += attention_block)
      run_block(block, all);
    finish();
  }

 private:
  bool pages_exist(Range r) const noexcept {
    const std::int64_t page = call_.input(1).dims[2];
    for (std::int64_t p = r.first / page * page; p < r.end; p += page)
      if (find_page(call_.input(1), call_.input(3), slot_, p) < 0) return false;
    return true;
  }

  void load_queries() noexcept {
    const Tensor& q = call_.input(0);
    for (std::int64_t t = 0; t < count_; ++t)
      for (std::int64_t g = 0; g < s_.group; ++g) {
        const std::int64_t row = t * s_.group + g;
        float* to = w_.queries + row * s_.key_padded;
        load_floats(bytes_of(q) + (begin_ + t) * q.strides[0] + (head_ * s_.group + g) * q.strides[1], q.dtype, q.strides[2], 0,
                    s_.key_size, to);
        std::fill(to + s_.key_size, to + s_.key_padded, 0.0f);
        w_.maximum[row] = -std::numeric_limits<float>::infinity();
        w_.sum[row] = 0.0f;
        std::fill_n(w_.output + row * s_.value_padded, s_.value_padded, 0.0f);
      }
  }

  /// Positions first .. end of one cache as f32 rows of `padded` floats, the first at `to`; page by page.
  void load_cache(const Tensor& cache, std::int64_t first, std::int64_t end, std::int64_t size, std::int64_t padded, float* to) noexcept {
    const std::int64_t page_size = cache.dims[2];
    const bool packed = size == padded && cache.strides[2] == size / unit_elements(cache.dtype) * unit_bytes(cache.dtype);
    for (std::int64_t p = first; p < end;) {
      const std::int64_t in_page = p % page_size, count = std::min(page_size - in_page, end - p);
      const std::byte* from = cache_row(cache, find_page(cache, call_.input(3), slot_, p), head_, in_page);
      if (packed) {
        vectors_.to_floats(cache.dtype, from, count * size, to);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          vectors_.to_floats(cache.dtype, from + i * cache.strides[2], size, to + i * padded);
          std::fill(to + i * padded + size, to + (i + 1) * padded, 0.0f);
        }
      }
      to += count * padded;
      p += count;
    }
  }

  void run_block(std::int64_t block, Range all) noexcept {
    const std::int64_t first = std::max(block, all.first), end = std::min(block + attention_block, all.end), skip = first - block;
    // Positions before `first` and behind `end` keep old scores or get scores of old keys; no row's range reaches them.
    load_cache(call_.input(1), first, end, s_.key_size, s_.key_padded, w_.keys + skip * s_.key_padded);
    load_cache(call_.input(2), first, end, s_.value_size, s_.value_padded, w_.values + skip * s_.value_padded);
    const std::int64_t rows = count_ * s_.group, positions = end - block;
    vectors_.turn_keys(w_.keys, skip, positions, s_.key_padded, w_.turned_keys);
    vectors_.attention_scores({w_.turned_keys, s_.key_padded, skip, positions, w_.queries, rows,
                               static_cast<float>(call_.real(QUERN_KEY_SCALE)), w_.scores});
    for (std::int64_t t = 0; t < count_; ++t)
      for (std::int64_t g = 0; g < s_.group; ++g) {
        const std::int64_t row = t * s_.group + g;
        w_.low[row] = static_cast<std::int32_t>(std::clamp<std::int64_t>(ranges_[t].first - block, 0, attention_block));
        w_.high[row] = static_cast<std::int32_t>(std::clamp<std::int64_t>(ranges_[t].end - block, 0, attention_block));
        adjust_scores(w_.scores + row * attention_block, begin_ + t, head_ * s_.group + g, block, w_.low[row], w_.high[row]);
      }
    AttentionBlock update{};
    update.rows = rows;
    update.positions = positions;
    update.low = w_.low;
    update.high = w_.high;
    update.scores = w_.scores;
    update.v = w_.values;
    update.v_size = s_.value_padded;
    update.holes = call_.input(7).present();
    update.maximum = w_.maximum;
    update.sum = w_.sum;
    update.output = w_.output;
    vectors_.attention(update);
  }

  /// softcap, then the mask: 0 in u8 and -inf in floats hide a key.
  void adjust_scores(float* scores, std::int64_t token, std::int64_t head, std::int64_t block, std::int64_t low,
                     std::int64_t high) noexcept {
    const auto cap = static_cast<float>(call_.real(QUERN_KEY_SOFTCAP));
    if (cap > 0.0f && low < high) vectors_.softcap(scores + low, cap, high - low, scores + low);
    const Tensor& mask = call_.input(7);
    if (!mask.present() || low >= high) return;
    float add[attention_block];
    load_floats(bytes_of(mask) + token * mask.strides[0], mask.dtype, mask.strides[1], block + low, high - low, add);
    const float slope = alibi_slope(call_.real(QUERN_KEY_MAX_BIAS), head, s_.heads);
    for (std::int64_t i = low; i < high; ++i) {
      const float m = add[i - low];
      const bool hidden = mask.dtype == QUERN_U8 ? m == 0.0f : m == -std::numeric_limits<float>::infinity();
      if (hidden) scores[i] = -std::numeric_limits<float>::infinity();
      else if (mask.dtype != QUERN_U8) scores[i] += slope * m;
    }
  }

  void finish() noexcept {
    const Tensor &sinks = call_.input(8), &y = call_.output(0);
    for (std::int64_t t = 0; t < count_; ++t)
      for (std::int64_t g = 0; g < s_.group; ++g) {
        const std::int64_t row = t * s_.group + g, head = head_ * s_.group + g;
        float *out = w_.output + row * s_.value_padded, factor = 1.0f, sum = w_.sum[row];
        if (sinks.present() && sum != 0.0f) {
          const float sink = load_scalar(sinks, head), best = std::max(w_.maximum[row], sink);
          factor = std::exp(w_.maximum[row] - best);
          sum = sum * factor + std::exp(sink - best);
        }
        if (sum == 0.0f) std::fill_n(out, s_.value_padded, 0.0f);
        else vectors_.scale(out, factor / sum, s_.value_padded, out);
        store_floats(bytes_of(y) + (begin_ + t) * y.strides[0] + head * y.strides[1], y.dtype, y.strides[2], 0, s_.value_size, out);
      }
  }

  const Call& call_;
  const Shape& s_;
  const Vectors& vectors_;
  Context& context_;
  Work w_;
  std::int64_t begin_ = 0, count_ = 0, head_ = 0, slot_ = 0;
  Range ranges_[task_rows] = {};
};

/// The last row of the group that starts at `begin`: rows of one sequence, at most s.rows.
std::int64_t group_end(const Tensor& row_slot, std::int64_t begin, std::int64_t limit) noexcept {
  std::int64_t end = begin + 1;
  const std::int64_t slot = load_integer(row_slot, begin);
  while (end < limit && load_integer(row_slot, end) == slot) ++end;
  return end;
}

template <Isa isa>
void run(const Call& call, Context& context) noexcept {
  const Shape s = shape_of(call);
  Work unused{};
  const std::int64_t floats = work_floats(s, nullptr, unused);
  const std::int64_t chunks = (s.tokens + s.rows - 1) / s.rows;  // aligned to s.rows, each cut again where the sequence changes
  context.parallel(chunks * s.kv_heads, 1, [&](std::int64_t from, std::int64_t to, std::uint32_t thread) {
    Work work{};
    work_floats(s, context.scratch() + thread * floats * 4, work);
    Task task(call, s, vectors_of(isa), context, work);
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t begin = i / s.kv_heads * s.rows, limit = std::min(begin + s.rows, s.tokens);
      for (std::int64_t t = begin; t < limit;) {
        const std::int64_t end = group_end(call.input(4), t, limit);
        task.run(i % s.kv_heads, t, end);
        t = end;
      }
    }
  });
}

constexpr Kernel kernels[] = {QUERN_CPU_KERNELS(QUERN_OP_ATTENTION, "attention", accepts, run, scratch, false)};

}  // namespace

const std::span<const Kernel> attention_kernels = kernels;

}  // namespace quern::cpu
