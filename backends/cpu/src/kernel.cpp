// Attribute lookup, and a tensor in words.
#include "kernel.hpp"

#include "quern/sdk/graph.hpp"

namespace quern::cpu {

double OpCall::real(std::uint32_t key) const noexcept { return attributes == nullptr ? 0.0 : attributes->number(key).f; }

std::int64_t OpCall::integer(std::uint32_t key) const noexcept { return attributes == nullptr ? 0 : attributes->number(key).i; }

std::string describe(const TensorView& view) {
  if (!view.present()) return "absent";
  std::string text = "[";
  for (std::uint32_t d = 0; d < view.rank; ++d) text += concat(d == 0 ? "" : ", ", (view.ranged >> d) & 1u ? "up to " : "", view.dims[d]);
  return text + "] " + std::string(sdk::dtype_name(view.dtype));
}

}  // namespace quern::cpu
