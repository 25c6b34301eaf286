// attention_backward: gradients of attention_dense. y and lse are those of the forward pass, rounded to their dtypes. Bounds:
// attention_gradient.hpp.
#include "ops/attention_gradient.hpp"

namespace quern::conformance {
namespace {

constexpr std::size_t in_y = 3, in_mask = 6, in_sinks = 7;

void derive(const ReferenceCall& call) { derive_attention(DenseAttention(call, in_mask, in_sinks), call, in_y); }

void reference(const ReferenceCall& call, Expected& expected) {
  attention_gradient_reference(DenseAttention(call, in_mask, in_sinks), call, in_y, expected);
  refuse_unseen(expected, "attention_backward");
}

Case make(Profile profile, const DenseShape& s) {
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  add_dense_inputs(c, s);
  add_forward_inputs(c, s, {s.batch, s.queries, s.heads, s.dv});
  add_mask_and_sinks(c, s);
  c.derive = derive;
  for (std::size_t i = 0; i < 3; ++i) c.outputs.push_back(output(s.dtype, c.inputs[i].dims, s.y_layout));
  add_dense_attributes(c, s);
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  each_dense_shape([&](Profile profile, const DenseShape& s) { sink.add(make(profile, s)); });
  for (const quern_dtype dtype : float_dtypes) {
    DenseShape s;
    s.dtype = dtype;
    s.queries = 7;
    s.keys = 19;
    s.offset = 12;
    for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::one_hot}) {
      s.data = data;
      sink.add(make(Profile::quick, s));
    }
    s.data = DataKind::gaussian;
    for (const Layout& layout : {rows_apart(3), ordered({0, 2, 1, 3}), ordered({1, 0, 2, 3}), shifted()}) {
      s.layout = layout;
      sink.add(make(Profile::quick, s));
      s.layout = {};
      s.y_layout = layout;
      sink.add(make(Profile::quick, s));
      s.y_layout = {};
    }
  }
}

}  // namespace

extern const Family attention_backward_family;
const Family attention_backward_family = {"attention_backward", generate};

}  // namespace quern::conformance
