// The cos/sin table of rope, with the scalings of its frequencies.
#include "quern/graph/ops/rope.hpp"

#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId rope_table(Graph& graph, Shape shape, ValueId position_count, ValueId factors, const RopeTableAttributes& how,
                   NodeOptions options) {
  options.output_shape = std::move(shape);
  return graph.add_node(QUERN_OP_ROPE_TABLE, {position_count, factors},
                        Attributes()
                            .set(QUERN_KEY_BASE, how.base)
                            .set(QUERN_KEY_SCALING, static_cast<std::int64_t>(how.scaling))
                            .set(QUERN_KEY_FACTOR, how.factor)
                            .set(QUERN_KEY_ORIGINAL_CONTEXT, how.original_context)
                            .set(QUERN_KEY_BETA_FAST, how.beta_fast)
                            .set(QUERN_KEY_BETA_SLOW, how.beta_slow)
                            .set(QUERN_KEY_MSCALE, how.mscale)
                            .set(QUERN_KEY_LOW_FREQ_FACTOR, how.low_freq_factor)
                            .set(QUERN_KEY_HIGH_FREQ_FACTOR, how.high_freq_factor)
                            .set(QUERN_KEY_FIRST, how.first),
                        std::move(options))[0];
}

}  // namespace ops

namespace rules {

namespace {

constexpr std::int64_t yarn = 2, llama3 = 3, ntk = 4, dynamic = 5;

void scaling_rule(OpCall& call, std::int64_t pairs) {
  const std::int64_t scaling = call.integer(QUERN_KEY_SCALING);
  if ((scaling == yarn || scaling == llama3 || scaling == dynamic) && call.integer(QUERN_KEY_ORIGINAL_CONTEXT) < 1)
    call.fail("scaling ", scaling, " needs original_context, the context before it was stretched");
  if (scaling == yarn && call.number(QUERN_KEY_BETA_FAST) < call.number(QUERN_KEY_BETA_SLOW))
    call.fail("beta_fast is ", call.number(QUERN_KEY_BETA_FAST), ", below beta_slow, which is ", call.number(QUERN_KEY_BETA_SLOW));
  if (scaling == llama3 && call.number(QUERN_KEY_HIGH_FREQ_FACTOR) <= call.number(QUERN_KEY_LOW_FREQ_FACTOR))
    call.fail("high_freq_factor is ", call.number(QUERN_KEY_HIGH_FREQ_FACTOR), "; it must be above low_freq_factor, which is ",
              call.number(QUERN_KEY_LOW_FREQ_FACTOR));
  if (scaling == yarn && call.number(QUERN_KEY_BASE) <= 1) call.fail("scaling 2 needs a base above 1");
  if ((scaling == ntk || scaling == dynamic) && pairs < 2) call.fail("scaling ", scaling, " needs a table of at least 2 pairs");
}

}  // namespace

void rope_table(OpCall& call) {
  const Shape& shape = call.out_shape(0);
  if (shape.size() != 3 || shape[1].symbol != 0 || shape[1].size < 1 || shape[2] != Dim(2))
    call.fail("table is ", call.text(shape), "; it must be [positions, pairs, 2]");
  call.dtype(0, i32_only);
  call.shape_is(0, {1});
  call.dtype(1, f32_only);
  call.shape_is(1, {shape[1]});
  for (const std::uint32_t key : {QUERN_KEY_BASE, QUERN_KEY_FACTOR, QUERN_KEY_BETA_FAST, QUERN_KEY_BETA_SLOW, QUERN_KEY_MSCALE,
                                  QUERN_KEY_LOW_FREQ_FACTOR, QUERN_KEY_HIGH_FREQ_FACTOR})
    call.positive(key);
  call.choice(QUERN_KEY_SCALING, 6);
  call.not_negative(QUERN_KEY_ORIGINAL_CONTEXT);
  call.not_negative(QUERN_KEY_FIRST);
  scaling_rule(call, shape[1].size);
  call.out(0, QUERN_F32, shape);
}

}  // namespace rules
}  // namespace quern::graph
