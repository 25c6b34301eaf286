// Chooses a kernel for each node and tells what was chosen.
#include "plan.hpp"

#include "error.hpp"
#include "op_signature.hpp"
#include "plan_check.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

/// FNV-1a. The families avx2 and avx512 sum in the same order with fused multiply-add, so they share a key; their packed kernels
/// round activations and add blocks each in its own way, so they do not.
void mix(std::uint64_t& key, std::string_view text) noexcept {
  for (const char c : text) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

std::uint64_t numerics_of(const std::vector<const Kernel*>& kernels) noexcept {
  std::uint64_t key = 0xcbf29ce484222325ull;
  for (const Kernel* kernel : kernels) {
    const std::string_view name = kernel->name, family = kernel_family(name);
    mix(key, name.substr(0, name.size() - family.size()));
    mix(key, family == "avx512" || family == "avx2" ? std::string_view("fma\n") : std::string_view("other\n"));
    if (family == "openblas" || name.find(".packed.") != std::string_view::npos) mix(key, family);
  }
  return key;
}

}  // namespace

Plan compile_plan(Graph graph, const KernelPolicy& policy, std::vector<std::uint32_t>& refused) {
  check_order(graph);
  Plan plan;
  plan.policy = policy;
  std::string first;
  quern_status code = QUERN_UNSUPPORTED;
  for (std::uint32_t n = 0; n < graph.nodes.size(); ++n) {
    Selection selection = select_kernel(graph, graph.nodes[n], policy);
    if (selection.kernel == nullptr) {
      if (refused.empty()) {
        first = concat("node ", n, graph.nodes[n].name.empty() ? "" : " ", graph.nodes[n].name, ": ", selection.verdict.text);
        code = selection.verdict.code;
      }
      refused.push_back(n);
    }
    plan.kernels.push_back(selection.kernel);
    plan.reasons.push_back(std::move(selection.reason));
  }
  if (!refused.empty()) throw Error(code, first, refused.front());
  plan.graph = std::move(graph);
  plan.numerics_key = numerics_of(plan.kernels);
  for (std::uint32_t n = 0; n < plan.kernels.size(); ++n) {
    const std::string_view name = plan.kernels[n]->name;
    if (kernel_family(name) == "openblas") plan.determinism = QUERN_DETERMINISM_REPEATABLE;
    quern_kernel_info info{};
    info.header = {sizeof(quern_kernel_info), QUERN_TYPE_KERNEL_INFO, nullptr};
    info.name = {name.data(), name.size()};
    info.reason = {plan.reasons[n].data(), plan.reasons[n].size()};
    info.node = n;
    info.node_count = 1;
    plan.infos.push_back(info);
  }
  return plan;
}

}  // namespace quern::cpu
