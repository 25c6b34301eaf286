// Chooses a kernel for each node, joins neighbours into steps, and tells what was chosen.
#include "plan.hpp"

#include "error.hpp"
#include "op_signature.hpp"
#include "plan_check.hpp"

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
Formed form_steps(const Graph& graph, const std::vector<const Kernel*>& kernels, const KernelPolicy& policy) {
  Formed formed;
  std::vector<Step>& steps = formed.steps;
  const bool fuse = policy.fuse && (policy.force.empty() || policy.force.find('.') == std::string::npos);
  std::vector<std::vector<TensorView>> views(graph.nodes.size());
  std::vector<OpCall> calls;
  calls.reserve(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    calls.push_back(describe_call(graph, graph.nodes[n], policy.thread_count, policy.deterministic, views[n]));
  const std::vector<Touches> touches = find_touches(graph);
  const Neighbours nodes{graph, kernels, calls, touches};
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
std::vector<char> find_memoryless(const Graph& graph, const std::vector<Step>& steps) {
  std::vector<char> memoryless(graph.values.size(), 0);
  const std::vector<Touches> touches = find_touches(graph);
  for (const Step& step : steps) {
    if (step.fusion == nullptr) continue;
    for (std::uint32_t n = step.first; n < step.first + step.count; ++n)
      for (const std::uint32_t id : graph.nodes[n].outputs) {
        if (id == QUERN_NONE) continue;
        const std::uint32_t root = graph.values[id].root;
        memoryless[root] = !touches[root].visible && touches[root].first >= step.first && touches[root].last < step.first + step.count;
      }
  }
  return memoryless;
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
  for (const Kernel* kernel : plan.kernels)
    if (kernel_family(kernel->name) == "openblas") plan.determinism = QUERN_DETERMINISM_REPEATABLE, plan.uses_openblas = true;
  Formed formed = form_steps(plan.graph, plan.kernels, policy);
  plan.steps = std::move(formed.steps);
  plan.memoryless = find_memoryless(plan.graph, plan.steps);
  plan.told.schedule();
  for (const Step& step : plan.steps) {
    std::vector<std::uint32_t> nodes(step.count);
    std::iota(nodes.begin(), nodes.end(), step.first);
    plan.told.kernel(step.fusion != nullptr ? step.fusion->name : plan.kernels[step.first]->name, plan.reasons[step.first],
                     std::move(nodes), step.first);
  }
  for (const sdk::Alone& alone : formed.alone) plan.told.alone(alone);
  plan.told.serves(0);
  plan.infos = plan.told.kernels(0);
  return plan;
}

}  // namespace quern::cpu
