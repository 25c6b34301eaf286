// A backend's rules of fusion as a table, and what a plan says of the nodes that no rule took.
//
// A row is one small rule: the op of the nodes that it may take, its name for the user, and why it does not take a node. Several rows may be for
// one op; the nearest stands first. A schedule is made in one pass over the nodes, in their order. Then why_left asks every row again of each node
// that was left: a rule that takes it now is one that the pass missed. Where no node says so, the pass was a fixed point of the table.
//
//   constexpr sdk::fusion::Rule<Rules> table[] = {{QUERN_OP_MATMUL, "product", &Rules::why_no_product}, ...};
//   schedule.alone.push_back(sdk::fusion::why_left(rules, table, graph.nodes[n].op, n));
//
// Part of the plugin SDK; C++17, not part of the ABI.
#ifndef QUERN_SDK_FUSION_RULES_HPP
#define QUERN_SDK_FUSION_RULES_HPP

#include "quern/sdk/fusion/attention.hpp"
#include "quern/sdk/told_schedules.hpp"

#include <string_view>

namespace quern {
namespace sdk {
namespace fusion {

template <class Backend>
struct Rule {
  std::uint32_t op;
  std::string_view name;
  Refusal (Backend::*why_not)(std::uint32_t node) const;         // null: it takes the node
  bool (Backend::*is_near)(std::uint32_t node) const = nullptr;  // whether the rule is for a node like this; null: for any of its op
};

/// What is said of a node that no step has although a rule takes it: a fault of the backend, which tests look for.
inline constexpr std::string_view missed = "a rule takes it, but no step of this schedule has it";

/// Why no rule took node `n`, which has this op: by the first row that is near it.
template <class Backend, class Table>
Alone why_left(const Backend& backend, const Table& table, std::uint32_t op, std::uint32_t n) {
  Alone nearest{n, "", "no rule of this backend takes its op"};
  for (const Rule<Backend>& rule : table) {
    if (rule.op != op || (rule.is_near != nullptr && !(backend.*rule.is_near)(n))) continue;
    const Refusal why = (backend.*rule.why_not)(n);
    if (why == nullptr) return {n, rule.name, missed};
    if (nearest.rule.empty()) nearest.rule = rule.name, nearest.reason = why;
  }
  return nearest;
}

}  // namespace fusion
}  // namespace sdk
}  // namespace quern

#endif  // QUERN_SDK_FUSION_RULES_HPP
