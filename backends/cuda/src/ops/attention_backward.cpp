// Gradients of attention_dense. See kernels/attention_backward.cu.
#include "attention_dense.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

enum { in_q, in_k, in_v, in_y, in_lse, in_dy };

std::string refuse_attention_backward(const Call& call) { return check_dense(call, call.input(in_lse), call.input(7)); }

std::uint64_t scratch_attention_backward(const Call& call) {
  const Tensor& q = call.input(in_q);
  return static_cast<std::uint64_t>(q.dims[0] * q.dims[1] * q.dims[2]) * sizeof(float);
}

void emit_attention_backward(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = dense_params(call, call.input(6), call.input(7), call.input(in_lse));
  p.y = leading(call.input(in_y));
  p.dy = leading(call.input(in_dy));
  p.dq = leading(call.output(0));
  p.dk = leading(call.output(1));
  p.dv = leading(call.output(2));
  p.dots = call.scratch;
  attend_backward(p, call.input(in_q).dims[0], launcher);
}

}  // namespace

const Op attention_backward_op{QUERN_OP_ATTENTION_BACKWARD, "attention_backward.cuda", refuse_attention_backward, emit_attention_backward,
                               scratch_attention_backward};

}  // namespace quern::cuda
