// Softmax attention over dense keys and values, with the log of the sum of exp that the gradient needs.
//
// One row of q at a time: scores of the keys that it sees, then their softmax, then values in f32 blocks of 64 keys. A hidden key
// and its value never enter arithmetic. A sink is in lse, since it takes mass; a row that sees no key is zeros, with the sink or -inf
// as its lse.
#include "alibi.hpp"
#include "dense_attention.hpp"
#include "map_rows.hpp"

#include <limits>

namespace quern::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t value_block = 64;

Verdict accepts(const OpCall& call) {
  const TensorView &y = call.output(0), &lse = call.output(1);
  if (Verdict e = check_dense_attention(call, 3, 4); !e) return e;
  if (Verdict e = check_attention_rows(call, y, "y"); !e) return e;
  return lse.present() ? check_attention_lse(call, lse) : Verdict::yes();
}

/// One thread's memory.
struct Work {
  float *query, *row, *scores, *mask, *output, *block;
};
std::int64_t work_floats(const OpCall& call, float* base, Work& w) noexcept {
  const std::int64_t keys = call.input(1).dims[1], d = call.input(0).dims[3], dv = call.input(2).dims[3];
  std::int64_t at = 0;
  const auto take = [&](std::int64_t count) { return (at += count, base == nullptr ? nullptr : base + at - count); };
  w.query = take(d);
  w.row = take(std::max(d, dv));
  w.scores = take(keys);
  w.mask = take(keys);
  w.output = take(dv);
  w.block = take(dv);
  return at;
}
std::uint64_t scratch(const OpCall& call) noexcept {
  Work w{};
  return static_cast<std::uint64_t>(work_floats(call, nullptr, w)) * 4 * call.thread_count;
}

/// Row `head` of position (batch, position) as f32: in place where it is that already.
const float* head_row(const TensorView& x, std::int64_t batch, std::int64_t position, std::int64_t head, float* buffer) noexcept {
  const std::byte* from = x.data + batch * x.strides[0] + position * x.strides[1] + head * x.strides[2];
  if (!rows_are_packed(x)) load_floats(from, x.dtype, x.strides[3], 0, x.dims[3], buffer);
  else if (x.dtype == QUERN_F32) return reinterpret_cast<const float*>(from);
  else portable::vectors.to_floats(x.dtype, from, x.dims[3], buffer);
  return buffer;
}

/// In 16 lanes, which add up in pairs.
float dot(const float* a, const float* b, std::int64_t n) noexcept {
  float lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lanes[l] += a[i + l] * b[i + l];
  for (int l = 0; i < n; ++i, ++l) lanes[l] += a[i] * b[i];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

class Row {
 public:
  Row(const OpCall& call, const TensorView& shape, Work work) noexcept
      : call_(call),
        shape_(shape),
        w_(work),
        scale_(static_cast<float>(call.real(QUERN_KEY_SCALE))),
        cap_(static_cast<float>(call.real(QUERN_KEY_SOFTCAP))),
        group_(shape.dims[1] / call.input(1).dims[2]) {}

  /// Row `row` of q, counted over batch, queries and heads.
  void run(std::int64_t row) noexcept {
    const std::int64_t heads = shape_.dims[1], queries = shape_.dims[2];
    head_ = row % heads;
    query_ = row / heads % queries;
    batch_ = row / heads / queries;
    const KeyRange seen = visible_keys(call_, query_, shape_.dims[3]);
    first_ = seen.first;
    end_ = seen.end;
    make_scores();
    const TensorView& sinks = call_.input(4);
    const float sink = sinks.present() ? load_scalar(sinks, head_) : -infinity;
    float top = std::max(portable::vectors.maximum(w_.scores + first_, end_ - first_), sink);
    top = top == -infinity ? 0.0f : std::min(top, std::numeric_limits<float>::max());
    const float sum = portable::vectors.exp_sum(w_.scores + first_, top, end_ - first_, w_.scores + first_),
                all = sum + std::exp(sink - top);
    weigh_values();
    const std::int64_t size = call_.input(2).dims[3];
    for (std::int64_t i = 0; i < size; ++i) w_.output[i] = sum == 0.0f ? 0.0f : w_.output[i] / all;
    store_row(call_.output(0), row, 0, size, w_.output);
    if (const TensorView& lse = call_.output(1); lse.present())
      store_scalar(lse, row, static_cast<float>(static_cast<double>(top) + std::log(static_cast<double>(all))));
  }

 private:
  /// scale, softcap, then the mask; hidden keys are -inf.
  void make_scores() noexcept {
    const TensorView &q = call_.input(0), &k = call_.input(1), &mask = call_.input(3);
    const bool bytes = mask.dtype == QUERN_U8;
    const float* query = head_row(q, batch_, query_, head_, w_.query);
    const float slope = alibi_slope(call_.real(QUERN_KEY_MAX_BIAS), head_, shape_.dims[1]);
    if (mask.present()) {
      const std::int64_t row = (batch_ * shape_.dims[1] + head_) * shape_.dims[2] + query_;
      load_floats(broadcast_row_pointer(mask, shape_, row), mask.dtype, mask.stride_from_end(0), first_, end_ - first_, w_.mask + first_);
    }
    for (std::int64_t j = first_; j < end_; ++j) {
      if (mask.present() && (bytes ? w_.mask[j] == 0.0f : w_.mask[j] == -infinity)) {
        w_.scores[j] = -infinity;
        continue;
      }
      float score = scale_ * dot(query, head_row(k, batch_, j, head_ / group_, w_.row), q.dims[3]);
      if (cap_ > 0.0f) score = cap_ * std::tanh(score / cap_);
      if (mask.present() && !bytes) score += slope * w_.mask[j];
      w_.scores[j] = score;
    }
  }

  /// output = sum of probability times value; a probability of 0 leaves its value alone.
  void weigh_values() noexcept {
    const TensorView& v = call_.input(2);
    const std::int64_t size = v.dims[3];
    std::fill_n(w_.output, size, 0.0f);
    for (std::int64_t block = first_; block < end_; block += value_block) {
      std::fill_n(w_.block, size, 0.0f);
      for (std::int64_t j = block; j < std::min(end_, block + value_block); ++j) {
        const float p = w_.scores[j];
        if (p == 0.0f) continue;
        const float* value = head_row(v, batch_, j, head_ / group_, w_.row);
        for (std::int64_t i = 0; i < size; ++i) w_.block[i] += p * value[i];
      }
      for (std::int64_t i = 0; i < size; ++i) w_.output[i] += w_.block[i];
    }
  }

  const OpCall& call_;
  const TensorView& shape_;
  Work w_;
  float scale_, cap_;
  std::int64_t group_, batch_ = 0, query_ = 0, head_ = 0, first_ = 0, end_ = 0;
};

void run(const OpCall& call, Context& context) noexcept {
  const TensorView &q = call.input(0), &k = call.input(1), &v = call.input(2), shape = score_shape(q, k);
  Work unused{};
  const std::int64_t floats = work_floats(call, nullptr, unused);
  context.parallel(row_count(q), rows_a_part((k.dims[1] + 1) * (q.dims[3] + v.dims[3]), 262144),
                   [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
                     Work work{};
                     work_floats(call, reinterpret_cast<float*>(context.scratch()) + thread * floats, work);
                     Row row(call, shape, work);
                     for (std::int64_t i = begin; i < end; ++i) row.run(i);
                   });
}

constexpr Kernel kernels[] = {{QUERN_OP_ATTENTION_DENSE, "attention_dense.portable", Isa::baseline, accepts, run, scratch}};

}  // namespace

const std::span<const Kernel> attention_dense_kernels = kernels;

}  // namespace quern::cpu
