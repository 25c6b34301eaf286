// dx = dy / count where mask is not 0, else 0: a mask of zeros, whose count is 0, divides nothing.
#include "map_rows.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_masked_mean_backward(const OpCall& call) {
  const TensorView &mask = call.input(0), &dx = call.output(0);
  if (Verdict v = check_dtype(mask, "mask", QUERN_I32); !v) return v;
  if (Verdict v = check_rank(mask, "mask", 1); !v) return v;
  for (const auto& [view, name] : {std::pair{&call.input(1), "count"}, std::pair{&call.input(2), "dy"}}) {
    if (Verdict v = check_dtype(*view, name, QUERN_F32); !v) return v;
    if (Verdict v = check_rank(*view, name, 1); !v) return v;
    if (Verdict v = check_dim(*view, name, 0, 1, "one number"); !v) return v;
  }
  if (Verdict v = check_dtype(dx, "dx", QUERN_F32); !v) return v;
  return check_same_shape(dx, "dx", mask, "mask");
}

void run_masked_mean_backward(const OpCall& call, Context& context) noexcept {
  const TensorView &mask = call.input(0), &dx = call.output(0);
  const float each = load_scalar(call.input(2), 0) / load_scalar(call.input(1), 0);
  context.parallel(mask.dims[0], 16384, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float values[map_part];
    for (std::int64_t first = begin; first < end; first += map_part) {
      const std::int64_t count = std::min(map_part, end - first);
      for (std::int64_t i = 0; i < count; ++i) values[i] = load_integer(mask, first + i) != 0 ? each : 0.0f;
      store_row(dx, 0, first, count, values);
    }
  });
}

constexpr Kernel kernels_masked_mean_backward[] = {{QUERN_OP_MASKED_MEAN_BACKWARD, "masked_mean_backward.portable", Isa::baseline,
                                                    accepts_masked_mean_backward, run_masked_mean_backward}};

}  // namespace

const std::span<const Kernel> masked_mean_backward_kernels = kernels_masked_mean_backward;

}  // namespace quern::cpu
