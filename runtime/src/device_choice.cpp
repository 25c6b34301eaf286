// See device_choice.hpp.
#include "device_choice.hpp"

#include "plan.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

namespace quern::runtime {
namespace {

using Devices = std::vector<std::shared_ptr<MemoryBudget>>;

std::string values(std::uint64_t count) { return concat(count, count == 1 ? " value" : " values"); }

bool computes_all(const MemoryBudget& budget, const graph::Graph& graph) {
  return std::ranges::all_of(ask_support(*budget.device(), graph), &NodeAnswer::yes);
}

/// Nothing where the devices do not compute all of it together.
std::optional<Outcome> outcome_of(const Devices& devices, const graph::Graph& graph) {
  std::vector<std::shared_ptr<loader::Device>> list;
  for (const auto& budget : devices) list.push_back(budget->device());
  try {
    const Placement placement = place(graph, list, Fallback::automatic);
    const auto here = std::ranges::count(placement.device_of_node, 0u);
    return Outcome{list[0]->label(), static_cast<std::uint64_t>(here), graph.nodes().size(), crossings(graph, placement).size()};
  } catch (const Error& error) {
    if (error.code() != QUERN_UNSUPPORTED) throw;
    return std::nullopt;
  }
}

}  // namespace

std::size_t best_of(std::span<const Outcome> outcomes) {
  const auto worth = [](const Outcome& outcome) { return std::tuple(!outcome.whole(), outcome.crossings); };
  return static_cast<std::size_t>(std::ranges::min_element(outcomes, {}, worth) - outcomes.begin());
}

std::string words_of_choice(const Outcome& first, const Outcome& chosen, const std::string& behind) {
  return concat(first.device, " computes ", first.nodes, " of ", first.all, " nodes, and ", values(first.crossings),
                " would cross between it and ", behind, " in each step; ", chosen.device, " computes ",
                chosen.whole() ? std::string("all of them")
                               : concat(chosen.nodes, ", and ", values(chosen.crossings), chosen.crossings == 1 ? " crosses" : " cross"));
}

DeviceChoice choose_devices(Runtime& runtime, const graph::Graph& graph) {
  const Devices ranked = runtime.devices();
  if (runtime.demanded() || computes_all(*ranked[0], graph)) return {ranked, {}};
  const std::shared_ptr<MemoryBudget> behind = ranked.back();  // the CPU, where there is one
  std::vector<Devices> lists;
  std::vector<Outcome> outcomes;
  std::set<std::tuple<std::string, std::string, std::string>> kinds;
  for (const loader::Candidate& candidate : runtime.loader().require()) {
    if (!kinds.insert({candidate.plugin_id, candidate.device.name, candidate.device.architecture}).second) continue;
    Devices list;
    try {
      list.push_back(runtime.device(candidate.label));
    } catch (const Error& failure) {
      runtime.log(QUERN_LOG_WARN, concat(candidate.label, " is not used: ", failure.what()));
      continue;
    }
    if (list[0] != behind) list.push_back(behind);
    const std::optional<Outcome> outcome = outcome_of(list, graph);
    if (!outcome) continue;
    lists.push_back(std::move(list));
    outcomes.push_back(*outcome);
    if (outcome->whole()) break;
  }
  if (outcomes.empty()) return {ranked, {}};  // compiling it says which node nobody computes
  const std::size_t best = best_of(outcomes);
  return {lists[best], best == 0 ? "" : words_of_choice(outcomes[0], outcomes[best], behind->device()->label())};
}

}  // namespace quern::runtime
