// Rotary position embedding by table; its gradient is the inverse rotation.
#include "quern/graph/ops/rope.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId rope(Graph& graph, ValueId x, ValueId position, ValueId table, const RopeAttributes& how, NodeOptions options) {
  return graph.add_node(QUERN_OP_ROPE, {x, position, table},
                        Attributes()
                            .set(QUERN_KEY_MODE, how.mode)
                            .set(QUERN_KEY_INVERSE, how.inverse)
                            .set(QUERN_KEY_SECTION0, how.sections[0])
                            .set(QUERN_KEY_SECTION1, how.sections[1])
                            .set(QUERN_KEY_SECTION2, how.sections[2])
                            .set(QUERN_KEY_SECTION3, how.sections[3]),
                        std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

/// Pairs that the sections cover; 0 without sections.
std::int64_t section_pairs(OpCall& call, std::int64_t pairs) {
  std::int64_t total = 0;
  for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3}) {
    const std::int64_t section = call.integer(key);
    if (section < 0 || section > pairs) call.fail(attribute_name(key), " is ", section, " but the table has ", pairs, " pairs");
    total += section;
  }
  if (total != 0 && total != pairs) call.fail("the sections cover ", total, " pairs but the table has ", pairs);
  return total;
}

}  // namespace

void rope(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 3);
  call.dtype(2, f32_only);
  call.rank_is(2, 3);
  const std::int64_t pairs = call.fixed(2, 1);
  const std::int64_t size = call.fixed(0, 2);
  if (call.dim(2, 2) != Dim(2)) call.fail(call.text(2), "; its last dimension is (cos, sin)");
  if (pairs < 1 || pairs > size / 2)
    call.fail(call.text(2), ", so ", 2 * pairs, " elements of a head are rotated, but ", call.text(0), ", whose heads have ", size);
  call.choice(QUERN_KEY_MODE, 2);
  call.flag(QUERN_KEY_INVERSE);
  call.dtype(1, i32_only);
  if (section_pairs(call, pairs) != 0) call.shape_is(1, {4, call.dim(0, 0)});
  else call.shape_is(1, {call.dim(0, 0)});
  call.out(0, call.in(0).dtype, call.shape(0));
}

}  // namespace rules

namespace gradients {

void rope(GradientCall& call) {
  if (!call.wants(0)) return;
  Attributes attributes = call.node().attributes;
  attributes.set(QUERN_KEY_INVERSE, 1 - call.integer(QUERN_KEY_INVERSE));
  call.give(0, call.add(QUERN_OP_ROPE, {call.dy(), call.in(1), call.in(2)}, attributes)[0]);
}

}  // namespace gradients
}  // namespace quern::graph
