// A token drawn from each row of logits.
#include "logits.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_sample(const Call& call) {
  return first_of({refuse_logits(call), check_contiguous(call.output(0)), check_contiguous(call.output(1))});
}

std::uint64_t scratch_sample(const Call& call) {
  return copy_bytes(call.input(0)) + static_cast<std::uint64_t>(call.input(0).elements()) * 16;
}

void emit_sample(const Call& call, Launcher& launcher) {
  Address at = call.scratch;
  const Tensor x = packed_input(call, at, launcher);
  const SampleParams p{x.data, call.input(1).data, call.input(2).data, call.input(3).data, call.output(0).data, call.output(1).data,
                       at,     x.dims[0],          x.dims[1]};
  launcher.launch(kernels::sample, {p.rows, 1, 1}, 1024, p);
}

}  // namespace

const Op sample_op{QUERN_OP_SAMPLE, "sample.cuda", refuse_sample, emit_sample, scratch_sample, false, all_packed};

}  // namespace quern::cuda
