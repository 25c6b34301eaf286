// Low-rank products with the adapter of each row, and their gradients.
#include "quern/graph/ops/lora.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId lora_matmul(Graph& graph, const LoraInputs& in, ValueId base, std::int64_t n, double alpha, NodeOptions options) {
  if (in.x < graph.values().size() && graph.value(in.x).shape.size() == 2) options.output_shape = {graph.value(in.x).shape[0], n};
  return graph.add_node(QUERN_OP_LORA_MATMUL, {in.x, in.pool, in.table, in.slot, base}, Attributes().set(QUERN_KEY_ALPHA, alpha),
                        std::move(options))[0];
}

LoraGradients lora_matmul_backward(Graph& graph, const LoraInputs& in, ValueId dy, double alpha, bool accumulate, NodeOptions options) {
  const auto outputs = graph.add_node(QUERN_OP_LORA_MATMUL_BACKWARD, {in.x, in.pool, in.table, in.slot, dy},
                                      Attributes().set(QUERN_KEY_ALPHA, alpha).set(QUERN_KEY_ACCUMULATE, accumulate), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

namespace {

void adapter_rule(OpCall& call) {
  call.dtype(0, floats);
  call.rank_is(0, 2);
  call.dtype(1, floats);
  call.rank_is(1, 1);
  call.dtype(2, i32_only);
  call.rank_is(2, 2);
  if (call.dim(2, 1) != Dim(4)) call.fail(call.text(2), "; a row is (offset of A, offset of B, rank, bits of the scale)");
  call.dtype(3, i32_only);
  call.shape_is(3, {call.dim(0, 0)});
  call.finite(QUERN_KEY_ALPHA);
}

}  // namespace

void lora_matmul(OpCall& call) {
  adapter_rule(call);
  const Shape& y = call.has(4) ? call.shape(4) : call.out_shape(0);
  if (y.size() != 2 || y[0] != call.dim(0, 0))
    call.fail("y is ", call.text(y), " but ", call.text(0), "; y must be [rows of x, n], by base, output_shape or the output");
  if (call.has(4) && !call.out_shape(0).empty()) call.shape_is(4, call.out_shape(0));
  const quern_dtype dtype = call.out_dtype(call.in(0).dtype, floats);
  call.dtype(4, {dtype});
  call.out(0, dtype, y);
}

void lora_matmul_backward(OpCall& call) {
  adapter_rule(call);
  call.dtype(4, floats);
  call.rank_is(4, 2);
  call.same_dim(4, 0, 0, 0);
  call.accumulates({1});
  call.out(0, call.in(0).dtype, call.shape(0));
  call.out(1, call.in(1).dtype, call.shape(1));
}

}  // namespace rules

namespace gradients {

void lora_matmul(GradientCall& call) {
  constexpr std::size_t x = 0, pool = 1, table = 2, slot = 3, base = 4;
  if (call.wants(base)) call.give(base, call.dy());
  if (!call.wants(x) && !call.wants(pool)) return;
  NodeOptions how = call.how();
  Attributes attributes = call.node().attributes;
  const ValueId into = call.wants(pool) && call.dtype(pool) == QUERN_F32 ? call.into(pool) : no_value;
  if (into != no_value) {
    attributes.set(QUERN_KEY_ACCUMULATE, 1);
    how.outputs = {no_value, into};
  }
  const auto outputs =
      call.add(QUERN_OP_LORA_MATMUL_BACKWARD, {call.in(x), call.in(pool), call.in(table), call.in(slot), call.dy()}, attributes, how);
  for (const std::size_t i : {x, pool})
    if (call.wants(i)) call.give(i, outputs[i]);
}

}  // namespace gradients
}  // namespace quern::graph
