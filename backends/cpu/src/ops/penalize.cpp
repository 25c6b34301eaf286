// Logits changed for the tokens of a row's history, the others copied.
//
// It looks at history[max(0, len - window) .. len): each token in it, with c its count there, gets x / repeat (x * repeat if
// x <= 0), then minus frequency * c + presence. Tokens below 0 are skipped; one beyond the vocabulary raises INDEX_RANGE.
#include "logit_rows.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

enum { repeat_param = 4, presence_param = 5, frequency_param = 6, window_param = 7, param_count = 8 };

Verdict accepts_logits(const Call& call) { return check_logits(call.input(0), call.output(0)); }

std::uint64_t scratch_penalize(const Call& call) noexcept {
  return static_cast<std::uint64_t>(call.input(0).last()) * 4 * call.thread_count;
}

void penalize_row(const Call& call, std::int64_t row, std::int32_t* counts, Context& context) noexcept {
  const Tensor &x = call.input(0), &history = call.input(1), &params = call.input(3), &y = call.output(0);
  const std::int64_t n = x.last(), capacity = history.dims[1];
  const auto* from = reinterpret_cast<const float*>(row_pointer(x, row));
  auto* to = reinterpret_cast<float*>(row_pointer(y, row));
  std::copy_n(from, n, to);
  float p[param_count];
  load_row(params, row, 0, param_count, p);
  const std::int64_t length = std::clamp<std::int64_t>(load_integer(call.input(2), row), 0, capacity);
  const float window = std::clamp(p[window_param], 0.0f, static_cast<float>(capacity));  // a NaN stays NaN and is no window
  const std::int64_t first = std::max<std::int64_t>(0, length - (window > 0.0f ? static_cast<std::int64_t>(window) : 0));
  if (first >= length) return;
  std::fill_n(counts, n, 0);
  const auto token_at = [&](std::int64_t i) { return load_integer(history, row * capacity + i); };
  for (std::int64_t i = first; i < length; ++i) {
    const std::int64_t token = token_at(i);
    if (token >= n) context.fault(QUERN_FAULT_INDEX_RANGE);
    else if (token >= 0) ++counts[token];
  }
  for (std::int64_t i = first; i < length; ++i) {
    const std::int64_t token = token_at(i);
    if (token < 0 || token >= n || counts[token] == 0) continue;
    float value = from[token];
    value = value > 0.0f ? value / p[repeat_param] : value * p[repeat_param];
    to[token] = value - p[frequency_param] * static_cast<float>(counts[token]) - p[presence_param];
    counts[token] = 0;
  }
}

void run_penalize(const Call& call, Context& context) noexcept {
  const std::int64_t n = call.input(0).last();
  context.parallel(call.input(0).dims[0], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t thread) {
    for (std::int64_t row = begin; row < end; ++row)
      if (call.row_live(row)) penalize_row(call, row, reinterpret_cast<std::int32_t*>(context.scratch()) + thread * n, context);
  });
}

constexpr Kernel kernels_penalize[] = {
    {QUERN_OP_PENALIZE, "penalize.portable", Isa::baseline, accepts_logits, run_penalize, scratch_penalize, true},
};

}  // namespace

const std::span<const Kernel> penalize_kernels = kernels_penalize;

}  // namespace quern::cpu
