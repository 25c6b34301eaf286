// Attribute lookup and the checks that ops share.
#include "kernel.hpp"

#include "quern/sdk/ops.hpp"

namespace quern::cpu {

double OpCall::real(std::uint32_t key) const noexcept { return attributes == nullptr ? 0.0 : attributes->number(key).f; }

std::int64_t OpCall::integer(std::uint32_t key) const noexcept { return attributes == nullptr ? 0 : attributes->number(key).i; }

std::string describe(const TensorView& view) {
  if (!view.present()) return "absent";
  std::string text = "[";
  for (std::uint32_t d = 0; d < view.rank; ++d) text += concat(d == 0 ? "" : ", ", (view.ranged >> d) & 1u ? "up to " : "", view.dims[d]);
  return text + "] " + dtype_name(view.dtype);
}

Verdict check_floats(const TensorView& view, const char* name) {
  if (is_float(view.dtype)) return Verdict::yes();
  return Verdict::no(concat(name, " is ", dtype_name(view.dtype), "; it takes f32, f16 or bf16"));
}

Verdict check_dtype(const TensorView& view, const char* name, quern_dtype dtype) {
  if (view.dtype == dtype) return Verdict::yes();
  return Verdict::no(concat(name, " is ", dtype_name(view.dtype), "; it takes ", dtype_name(dtype)));
}

Verdict check_rank(const TensorView& view, const char* name, std::uint32_t rank) {
  if (view.rank == rank) return Verdict::yes();
  return Verdict::invalid(concat(name, " is ", describe(view), "; it has ", rank, " dimensions"));
}

Verdict check_same_shape(const TensorView& a, const char* a_name, const TensorView& b, const char* b_name) {
  if (same_shape(a, b)) return Verdict::yes();
  return Verdict::invalid(concat(a_name, " is ", describe(a), " and ", b_name, " is ", describe(b), "; they have one shape"));
}

Verdict check_dim(const TensorView& view, const char* name, std::uint32_t dim, std::int64_t size, const char* what) {
  if (dim < view.rank && view.dims[dim] == size) return Verdict::yes();
  return Verdict::invalid(concat(name, " is ", describe(view), " but dimension ", dim, " is ", what, ", ", size));
}

}  // namespace quern::cpu
