// Logits changed by an amount for a few tokens of each row, the others copied. A token of -1 is skipped; one beyond the vocabulary raises
// INDEX_RANGE.
#include "logit_rows.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

Verdict accepts_logit_bias(const Call& call) { return check_logits(call.input(0), call.output(0)); }

void run_logit_bias(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &token = call.input(1), &bias = call.input(2), &y = call.output(0);
  const std::int64_t n = x.last(), entries = token.dims[1];
  context.parallel(x.dims[0], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      auto* to = reinterpret_cast<float*>(row_pointer(y, row));
      std::copy_n(reinterpret_cast<const float*>(row_pointer(x, row)), n, to);
      for (std::int64_t i = 0; i < entries; ++i) {
        const std::int64_t id = load_integer(token, row * entries + i);
        if (id == -1) continue;
        if (id < 0 || id >= n) context.fault(QUERN_FAULT_INDEX_RANGE);
        else to[id] += load_scalar(bias, row * entries + i);
      }
    }
  });
}

constexpr Kernel kernels_logit_bias[] = {
    {QUERN_OP_LOGIT_BIAS, "logit_bias.portable", Isa::baseline, accepts_logit_bias, run_logit_bias, nullptr, true}};

}  // namespace

const std::span<const Kernel> logit_bias_kernels = kernels_logit_bias;

}  // namespace quern::cpu
