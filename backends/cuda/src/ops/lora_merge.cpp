// A weight with an adapter in it. Kernels: those of ops/matmul_any.cpp.
#include "matmul_any.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

/// y = w + alpha b a: a has the rows of the rank, so it is turned.
void emit_lora_merge(const Call& call, Launcher& launcher) {
  const MatmulFactors factors{false, true, static_cast<float>(call.real(QUERN_KEY_ALPHA)), 1.0f};
  launch_matmul_any(call.input(2), call.input(1), 0, call.input(0), call.output(0), factors, launcher);
}

}  // namespace

const Op lora_merge_op{QUERN_OP_LORA_MERGE, "lora_merge.cuda", nullptr, emit_lora_merge};

}  // namespace quern::cuda
