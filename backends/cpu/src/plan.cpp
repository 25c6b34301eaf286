// Chooses a kernel for each node, joins neighbours into steps, and tells what was chosen.
#include "backend.hpp"

#include <algorithm>
#include <numeric>

namespace quern::cpu {
namespace {

/// FNV-1a. The families avx2 and avx512 sum in the same order with fused multiply-add, so they share a key; their packed kernels
/// round activations and add blocks each in its own way, so they do not. Those of amx give the bits of avx512.
void mix(std::uint64_t& key, std::string_view text) noexcept {
  for (const char c : text) key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
}

std::uint64_t numerics_of(const std::vector<const Kernel*>& kernels) noexcept {
  std::uint64_t key = 0xcbf29ce484222325ull;
  for (const Kernel* kernel : kernels) {
    const std::string_view name = kernel->name, own = kernel_family(name), family = own == "amx" ? "avx512" : own;
    mix(key, name.substr(0, name.size() - own.size()));
    mix(key, family == "avx512" || family == "avx2" ? std::string_view("fma\n") : std::string_view("other\n"));
    if (family == "openblas" || name.find(".packed.") != std::string_view::npos) mix(key, family);
  }
  return key;
}

/// Steps, and of each node of a step of one why no fusion takes it.
struct Formed {
  std::vector<Step> steps;
  std::vector<sdk::Alone> alone;
};

/// Every node in a step of its own, or in the first fusion that takes it. A kernel forced by name runs as itself.
Formed form_steps(const Graph& graph, const std::vector<const Kernel*>& kernels, const Uses& uses, const KernelPolicy& policy) {
  Formed formed;
  std::vector<Step>& steps = formed.steps;
  const bool fuse = policy.fuse && (policy.force.empty() || policy.force.find('.') == std::string::npos);
  std::vector<std::vector<Tensor>> views(graph.nodes.size());
  std::vector<Call> calls;
  calls.reserve(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    calls.push_back(describe_call(graph, graph.nodes[n], policy.thread_count, policy.deterministic, views[n]));
  const Neighbours nodes{graph, kernels, calls, uses};
  std::vector<Match> refused(graph.nodes.size());  // the first pattern that a node stands in and that does not take it
  for (std::uint32_t n = 0; n < graph.nodes.size(); n += steps.back().count) {
    const Match match = fuse ? find_fusion(nodes, n) : Match{};
    for (std::uint32_t of = n; of < n + match.refusal.count && of < graph.nodes.size(); ++of)
      if (refused[of].refusal.reason == nullptr) refused[of] = match;
    steps.push_back(match.fusion == nullptr ? Step{n, 1, nullptr} : Step{n, match.count, match.fusion});
    if (match.fusion != nullptr) continue;
    if (!fuse) formed.alone.push_back({n, "", "an option switches off kernels of several nodes"});
    else if (refused[n].refusal.reason != nullptr) formed.alone.push_back({n, refused[n].rule, refused[n].refusal.reason});
    else if (!any_fusion_takes(graph.nodes[n].op))
      formed.alone.push_back({n, "", "no rule of this backend takes its op", QUERN_ALONE_COMPLETE});
    else formed.alone.push_back({n, "", "no node beside it is one that a rule joins it with", QUERN_ALONE_COMPLETE});
  }
  return formed;
}

/// Roots of internal values that one fused step alone touches.
std::vector<char> find_memoryless(const Graph& graph, const Uses& uses, const std::vector<Step>& steps) {
  std::vector<char> memoryless(graph.values.size(), 0);
  for (const Step& step : steps) {
    if (step.fusion == nullptr) continue;
    for (std::uint32_t n = step.first; n < step.first + step.count; ++n)
      for (const std::uint32_t id : graph.nodes[n].outputs)
        if (id != QUERN_NONE) memoryless[uses.root(id)] = touched_within(uses, uses.root(id), step.first, step.count);
  }
  return memoryless;
}

KernelPolicy policy_of(const Device& device, const quern_compile_options& options) {
  KernelPolicy policy = device.policy;
  const std::string force = check_forced_kernel(sdk::view(options.force_kernel), device.processor, QUERN_UNSUPPORTED);
  if (!force.empty()) policy.force = force;
  policy.fuse = options.fusion != 0;
  return policy;
}

}  // namespace

Plan::Plan(const quern_graph* host_graph, KernelPolicy under, std::vector<std::uint32_t>& refused)
    : policy(std::move(under)), graph(host_graph, KernelOffers(policy)) {
  graph.require_runnable(refused);
  for (const Node& node : graph.nodes) kernels.push_back(static_cast<const Kernel*>(node.choice.row));
  numerics_key = numerics_of(kernels);
  for (const Kernel* kernel : kernels)
    if (const std::string_view name = kernel->name; kernel_family(name) == "openblas" || name.find(".blocked.") != std::string_view::npos) {
      determinism = QUERN_DETERMINISM_REPEATABLE;
      uses_openblas = uses_openblas || kernel_family(name) == "openblas";
    }
  const Uses uses(graph);
  Formed formed = form_steps(graph, kernels, uses, policy);
  steps = std::move(formed.steps);
  memoryless = find_memoryless(graph, uses, steps);
  told.schedule();
  for (const Step& step : steps) {
    std::vector<std::uint32_t> nodes(step.count);
    std::iota(nodes.begin(), nodes.end(), step.first);
    told.kernel(step.fusion != nullptr ? step.fusion->name : kernels[step.first]->name, graph.nodes[step.first].choice.reason,
                std::move(nodes), step.first);
  }
  for (const sdk::Alone& alone : formed.alone) told.alone(alone);
  told.serves(0);
  infos = told.kernels(0);
  launches = static_cast<std::uint32_t>(steps.size());
}

Plan::Plan(const Device& device, const quern_graph* host_graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused)
    : Plan(host_graph, policy_of(device, options), refused) {}

}  // namespace quern::cpu
