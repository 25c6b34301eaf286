// Which kernel runs a node, and why not a faster one.
#pragma once

#include "graph.hpp"
#include "isa.hpp"

#include <string>
#include <string_view>

namespace quern::cpu {

/// What bounds the choice: the processor and the user's options.
struct KernelPolicy {
  Isa best = Isa::baseline;  // of the processor
  std::string no_amx;        // why that is not amx
  std::uint32_t thread_count = 1;
  bool deterministic = false;
  bool fuse = true;   // one kernel may compute several nodes
  std::string force;  // a family ("avx2") or a kernel name; empty: free
};

/// A forced family runs wherever the op has a kernel of it, else the op's next slower family. Throws Failure(unknown) for
/// a word that is neither a family nor a kernel, Failure(ARCH_NOT_BUILT) for a family that this
/// processor cannot run, and Failure(DEPENDENCY_MISSING) for openblas where the library is not there.
/// `value` may carry the prefix "cpu:"; one for another backend ("cuda:...") counts as unset.
std::string check_forced_kernel(std::string_view value, const Processor& processor, quern_status unknown);
/// `value` without that prefix; empty for another backend.
std::string_view forced_name(std::string_view value) noexcept;
/// Whether AMX is named by a forced family or kernel.
bool demands_amx(std::string_view force) noexcept;
/// Tokens of a part of a product (up to 256, see ops/packed_region.hpp) from which AMX's tiles multiply it under a forced family or kernel; vectors
/// multiply fewer. Undemanded tiles begin where they were seen to be faster, and parts of a prompt of more than 256 tokens have as many.
std::int64_t tiles_from(std::string_view force) noexcept;
/// Whether kernels of `family` may run under a forced family; under a forced kernel all may, of other ops.
bool family_allowed(std::string_view family, std::string_view force) noexcept;

/// The best instruction set that weights may be packed for under a forced family or kernel; baseline: they stay canonical.
Isa packing_isa(std::string_view force, Isa best) noexcept;

/// "avx2" of "matmul.q4_1.avx2".
std::string_view kernel_family(std::string_view name) noexcept;

/// The kernels under a policy, for the SDK's graphs. The row of a choice is a Kernel; its reason is as "avx512: switched off by
/// force_kernel=avx2".
class KernelOffers : public sdk::Offers {
 public:
  explicit KernelOffers(const KernelPolicy& policy) : policy_(policy) {}
  const sdk::OpOffer* find(std::uint32_t op) const override;
  bool writes_over_input(std::uint32_t) const override { return true; }
  std::uint64_t layout_bytes(std::string_view key, const quern_value& value) const override;
  sdk::Choice choose(const Graph& graph, const Node& node, const sdk::Node& source) const override;

 private:
  const KernelPolicy& policy_;
};

}  // namespace quern::cpu
