// attention_ragged_backward: gradients of attention_ragged. y and lse are those of the forward pass, rounded to their dtypes. Bounds:
// attention_gradient.hpp.
#include "ops/ragged_attention.hpp"

namespace quern::conformance {
namespace {

constexpr std::size_t in_start = 3, in_y = 4;

void derive(const ReferenceCall& call) { derive_attention(DenseAttention(call, in_start), call, in_y); }

void reference_not_finite(const ReferenceCall& call, Expected& expected) {
  attention_gradient_reference(DenseAttention(call, in_start), call, in_y, expected);
}
void reference(const ReferenceCall& call, Expected& expected) {
  reference_not_finite(call, expected);
  refuse_unseen(expected, "attention_ragged_backward");
}

Case make(Profile profile, const RaggedShape& s) {
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION_RAGGED_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  // Of data of one sign the differences dp - D cancel, and the bound of a rounded dy would say little of dq.
  if (s.data != DataKind::positive && !s.nan_example) c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  add_ragged_inputs(c, s);
  add_forward_inputs(c, s, {s.rows(), s.heads, s.dv});
  c.derive = derive;
  for (std::size_t i = 0; i < 3; ++i) c.outputs.push_back(output(s.dtype, c.inputs[i].dims, s.y_layout));
  finish_ragged_case(c, s);
  c.reference = s.nan_example ? reference_not_finite : reference;
  return c;
}

/// 200,039 rows of 16 heads.
void huge(CaseSink& sink) {
  RaggedShape s = many_examples(4879);
  s.heads = 16;
  s.kv_heads = 4;
  s.d = s.dv = 64;
  Case c = make(Profile::huge, s);
  c.derive = derive_some_examples(s, derive);
  c.reference = some_examples(s, c.reference);
  c.deadline_seconds = 600;
  sink.add(std::move(c));
}

void generate(CaseSink& sink) {
  each_ragged_shape(0b1110111, 0b111, [&](Profile profile, const RaggedShape& s) { sink.add(make(profile, s)); });
  huge(sink);
}

}  // namespace

extern const Family attention_ragged_backward_family;
const Family attention_ragged_backward_family = {"attention_ragged_backward", generate};

}  // namespace quern::conformance
