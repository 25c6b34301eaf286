// Products with the weights of chosen experts, and their gradients.
#include "quern/graph/ops/moe.hpp"

#include "../gradient_call.hpp"
#include "../op_call.hpp"

namespace quern::graph {
namespace ops {

ValueId matmul_id(Graph& graph, ValueId a, ValueId b, ValueId id, NodeOptions options) {
  return graph.add_node(QUERN_OP_MATMUL_ID, {a, b, id}, {}, std::move(options))[0];
}

MatmulIdGradients matmul_id_backward(Graph& graph, ValueId dy, ValueId a, ValueId b, ValueId id, bool accumulate, NodeOptions options) {
  const auto outputs =
      graph.add_node(QUERN_OP_MATMUL_ID_BACKWARD, {dy, a, b, id}, Attributes().set(QUERN_KEY_ACCUMULATE, accumulate), std::move(options));
  return {outputs[0], outputs[1]};
}

}  // namespace ops

namespace rules {

namespace {

/// Checks a [t, used or 1, k] against id [t, used].
void rows_rule(const OpCall& call, std::size_t a, std::size_t id) {
  call.dtype(a, floats);
  call.rank_is(a, 3);
  call.dtype(id, i32_only);
  call.rank_is(id, 2);
  call.same_dim(id, 0, a, 0);
  if (call.dim(a, 1) != Dim(1) && call.dim(a, 1) != call.dim(id, 1))
    call.fail(call.text(a), " but ", call.text(id), "; dimension 1 of a must be 1 or that of id");
}

}  // namespace

void matmul_id(OpCall& call) {
  rows_rule(call, 0, 2);
  call.dtype(1, weight_types);
  call.rank_is(1, 3);
  call.same_dim(0, 2, 1, 2);
  const quern_dtype dtype = call.out_dtype(call.in(0).dtype, floats);
  call.out(0, dtype, {call.dim(0, 0), call.dim(2, 1), call.dim(1, 1)});
}

void matmul_id_backward(OpCall& call) {
  constexpr std::size_t dy = 0, a = 1, b = 2, id = 3;
  rows_rule(call, a, id);
  call.dtype(dy, floats);
  call.rank_is(dy, 3);
  call.same_dim(dy, 0, id, 0);
  call.same_dim(dy, 1, id, 1);
  call.dtype(b, floats);
  call.rank_is(b, 3);
  call.same_dim(b, 1, dy, 2);
  call.same_dim(b, 2, a, 2);
  call.flag(QUERN_KEY_ACCUMULATE);
  if (call.has(b) && call.wanted(0)) call.out(0, call.in(a).dtype, call.shape(a));
  if (!call.wanted(1)) return;
  // db has the shape of b; where b is absent, the caller says how many experts there are.
  Shape db = call.has(b) ? call.shape(b) : call.out_shape(1);
  if (db.size() != 3 || db[1] != call.dim(dy, 2) || db[2] != call.dim(a, 2))
    call.fail("db is ", call.text(db), " but ", call.text(dy), " and ", call.text(a),
              "; db must be [experts, n, k], given by b, by output_shape or as the output");
  call.accumulates({1});
  call.out(1, call.has(b) ? call.in(b).dtype : call.in(dy).dtype, std::move(db));
}

}  // namespace rules

namespace gradients {

void matmul_id(GradientCall& call) {
  constexpr std::size_t a = 0, b = 1, id = 2;
  // One node gives both where db is wanted in the dtype that it has beside b. Else db is made without b, in the dtype of dy.
  const quern_dtype db_dtype = call.wants(b) ? call.sum_dtype(b) : QUERN_DTYPE_NONE;
  const bool together = call.wants(b) && db_dtype == call.dtype(b);
  const auto write_db = [&](NodeOptions& how, Attributes& attributes) {
    const ValueId into = call.into(b);
    how.outputs = {no_value, into};
    how.output_shape = call.shape(b);
    if (into != no_value) attributes.set(QUERN_KEY_ACCUMULATE, 1);
  };
  if (call.wants(a) || together) {
    ValueId weights = call.in(b);
    if (is_block_format(call.dtype(b))) weights = call.as(weights, call.graph().value(call.dy()).dtype);
    NodeOptions how = call.how();
    Attributes attributes;
    if (together) write_db(how, attributes);
    else how.skip_outputs |= 1u << 1;
    if (!call.wants(a)) how.skip_outputs |= 1u << 0;
    const auto outputs = call.add(QUERN_OP_MATMUL_ID_BACKWARD, {call.dy(), call.in(a), weights, call.in(id)}, attributes, how);
    if (call.wants(a)) call.give(a, outputs[0]);
    if (together) call.give(b, outputs[1]);
  }
  if (call.wants(b) && !together) {
    NodeOptions how = call.how();
    Attributes attributes;
    write_db(how, attributes);
    how.skip_outputs |= 1u << 0;
    const ValueId dy = call.as(call.dy(), db_dtype);
    call.give(b, call.add(QUERN_OP_MATMUL_ID_BACKWARD, {dy, call.in(a), no_value, call.in(id)}, attributes, how)[1]);
  }
}

}  // namespace gradients
}  // namespace quern::graph
