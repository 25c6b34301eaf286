// From an op's id to its rule. A row of ops.def without a rule does not link.
#include "op_call.hpp"

namespace quern::graph {
namespace {

struct Row {
  std::uint32_t id;
  Rule rule;
};

constexpr Row table[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, rules::name},
#include "quern/ops.def"
#undef QUERN_OP
};

}  // namespace

Rule find_rule(std::uint32_t op) {
  for (const Row& row : table)
    if (row.id == op) return row.rule;
  return nullptr;
}

}  // namespace quern::graph
