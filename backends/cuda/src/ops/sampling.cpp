// penalize, logit_bias and sample. Their kernels read packed rows of f32 logits; strided ones are copied to scratch and back.
#include "arrange.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_logits(const Tensor& x) {
  return (x.ranged & 2u) != 0 ? concat(describe(x), ": rows of a ranged length are not taken") : "";
}

/// Bytes of packed copies of logits: of x, then of y where there is one.
std::uint64_t copy_bytes(const Tensor& x) { return is_contiguous(x) ? 0 : static_cast<std::uint64_t>(x.elements() + 63) / 64 * 256; }
std::uint64_t copies_bytes(const Call& call) { return copy_bytes(call.input(0)) + copy_bytes(call.output(0)); }

/// The same logits packed at `at`, which moves on; those that are packed as they are.
Tensor packed_at(const Tensor& x, Address& at) {
  if (is_contiguous(x)) return x;
  Tensor packed = x;
  packed.data = at;
  packed.strides[1] = 4;
  packed.strides[0] = x.dims[1] * 4;
  at += copy_bytes(x);
  return packed;
}
Tensor packed_input(const Call& call, Address& at, Launcher& launcher) {
  const Tensor& x = call.input(0);
  const Tensor packed = packed_at(x, at);
  if (packed.data != x.data) launch_copy(x, packed, {}, launcher);
  return packed;
}
void unpack_output(const Call& call, const Tensor& packed, Launcher& launcher) {
  if (packed.data != call.output(0).data) launch_copy(packed, call.output(0), {}, launcher);
}

/// What belongs to the rows of logits is read packed.
std::string refuse(const Call& call) {
  std::string reason = check_logits(call.input(0));
  for (std::size_t i = 1; i < call.inputs.size(); ++i) reason = first_of({reason, check_contiguous(call.input(i))});
  return reason;
}

void emit_penalize(const Call& call, Launcher& launcher) {
  Address at = call.scratch;
  const Tensor x = packed_input(call, at, launcher), y = packed_at(call.output(0), at), &history = call.input(1);
  const PenalizeParams p{x.data,    y.data,    history.data,    call.input(2).data, call.input(3).data,
                         x.dims[0], x.dims[1], history.dims[1], launcher.faults()};
  launcher.launch(kernels::penalize, {p.rows, (p.n + 2047) / 2048, 1}, 256, p);
  unpack_output(call, y, launcher);
}

void emit_bias(const Call& call, Launcher& launcher) {
  Address at = call.scratch;
  const Tensor x = packed_input(call, at, launcher), y = packed_at(call.output(0), at), &token = call.input(1);
  const BiasParams p{x.data, y.data, token.data, call.input(2).data, x.dims[0], x.dims[1], token.dims[1], launcher.faults()};
  launcher.launch(kernels::logit_bias, {p.rows, (p.n + 2047) / 2048, 1}, 256, p);
  unpack_output(call, y, launcher);
}

std::string refuse_sample(const Call& call) {
  return first_of({refuse(call), check_contiguous(call.output(0)), check_contiguous(call.output(1))});
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

constexpr Op table[] = {{QUERN_OP_PENALIZE, "penalize.cuda", refuse, emit_penalize, copies_bytes, false, all_packed},
                        {QUERN_OP_LOGIT_BIAS, "logit_bias.cuda", refuse, emit_bias, copies_bytes, false, all_packed},
                        {QUERN_OP_SAMPLE, "sample.cuda", refuse_sample, emit_sample, scratch_sample, false, all_packed}};

}  // namespace

const std::span<const Op> sampling_ops = table;

}  // namespace quern::cuda
