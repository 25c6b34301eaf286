// See logits.hpp.
#include "logits.hpp"

#include "arrange.hpp"

namespace quern::cuda {

namespace {

std::string check_logits(const Tensor& x) {
  return (x.ranged & 2u) != 0 ? concat(describe(x), ": rows of a ranged length are not taken") : "";
}

}  // namespace

std::uint64_t copy_bytes(const Tensor& x) { return is_contiguous(x) ? 0 : static_cast<std::uint64_t>(x.elements() + 63) / 64 * 256; }
std::uint64_t copies_bytes(const Call& call) { return copy_bytes(call.input(0)) + copy_bytes(call.output(0)); }

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

std::string refuse_logits(const Call& call) {
  std::string reason = check_logits(call.input(0));
  for (std::size_t i = 1; i < call.inputs.size(); ++i) reason = first_of({reason, check_contiguous(call.input(i))});
  return reason;
}

}  // namespace quern::cuda
