// spec_accept and token_publish.
#include "../kernels/decoding.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_integers(const Tensor& t, std::uint32_t rank) { return first_of({check_dtype(t, QUERN_I32), check_rank(t, rank)}); }

std::string refuse_accept(const Call& call) {
  const Tensor &draft = call.input(0), &target = call.input(1), &live = call.input(2), &token = call.output(0), &count = call.output(1);
  std::string reason = first_of({check_integers(draft, 2), check_integers(target, 2), check_integers(live, 1), check_integers(token, 2),
                                 check_integers(count, 1)});
  if (!reason.empty()) return reason;
  return first_of({check_dim(target, 0, draft.dims[0]), check_dim(target, 1, draft.dims[1] + 1), check_dim(live, 0, draft.dims[0]),
                   check_same_shape(target, token), check_same_shape(live, count)});
}

void emit_accept(const Call& call, Launcher& launcher) {
  const AcceptParams p{rows_of(call.input(0)),  rows_of(call.input(1)),  rows_of(call.input(2)),
                       rows_of(call.output(0)), rows_of(call.output(1)), call.input(0).dims[1]};
  launcher.launch(kernels::spec_accept, {call.input(0).dims[0], 1, 1}, 32, p);
}

std::string refuse_publish(const Call& call) {
  const Tensor &token = call.input(0), &number = call.input(1), &ring = call.output(0);
  std::string reason = first_of({check_integers(token, 1), check_integers(ring, 2), check_dtype(number, QUERN_I32),
                                 number.elements() == 1 ? "" : concat(describe(number), " is one number")});
  if (!reason.empty()) return reason;
  return first_of({check_dim(ring, 1, token.dims[0]), ring.dims[0] > 0 ? "" : concat(describe(ring), " has no entry")});
}

void emit_publish(const Call& call, Launcher& launcher) {
  const Tensor &token = call.input(0), &ring = call.output(0);
  PublishTokenParams p{rows_of(token), rows_of(ring), call.input(1).data, token.dims[0], ring.dims[0], live_of(call)};
  launcher.launch(kernels::token_publish, {1, 1, 1}, 256, p);
}

constexpr Op table[] = {{QUERN_OP_SPEC_ACCEPT, "spec_accept.cuda", refuse_accept, emit_accept},
                        {QUERN_OP_TOKEN_PUBLISH, "token_publish.cuda", refuse_publish, emit_publish, nullptr, true}};

}  // namespace

const std::span<const Op> decoding_ops = table;

}  // namespace quern::cuda
