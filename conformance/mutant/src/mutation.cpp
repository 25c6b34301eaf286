// The table of mutants as code: the last column of ../mutants.def.
#include "edits.hpp"

namespace quern::mutant {
namespace {

struct Row {
  std::string_view name;
  Mutation (*make)();
};

constexpr Row rows[] = {
    {"none", [] { return Mutation(); }},
    {"card",
     [] {
       Mutation m;
       m.declares_card = true;
       return m;
     }},
    {"ftz", [] { return declaring_ftz(flushes_sums(flushed_f32)); }},
#define QUERN_MUTANT(name, sign, cases, what, ...) {#name, [] { return __VA_ARGS__; }},
#define QUERN_DEVICE_MUTANT QUERN_MUTANT
#define QUERN_QUEUE_MUTANT QUERN_MUTANT
#define QUERN_TOTAL_MUTANT QUERN_MUTANT
#include "mutants.def"
#undef QUERN_TOTAL_MUTANT
#undef QUERN_QUEUE_MUTANT
#undef QUERN_DEVICE_MUTANT
#undef QUERN_MUTANT
};

}  // namespace

Mutation behaves(Behaviour behaviour) {
  Mutation m;
  m.behaviour = behaviour;
  return m;
}

Mutation both(const Mutation& descriptors, const Mutation& values) {
  Mutation m = values;
  m.edit_graph = descriptors.edit_graph;
  return m;
}

Mutation where_invariant(Mutation values) {
  values.only_invariant = true;
  return values;
}

Mutation declaring_ftz(Mutation values) {
  values.declares_ftz = true;
  return values;
}

std::optional<Mutation> find_mutation(std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.make();
  return std::nullopt;
}

}  // namespace quern::mutant
