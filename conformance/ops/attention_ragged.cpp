// attention_ragged: softmax attention within packed examples, with the log of the sum of exp. Bounds: attention_reference.hpp.
#include "ops/ragged_attention.hpp"

namespace quern::conformance {
namespace {

void reference_not_finite(const ReferenceCall& call, Expected& expected) {
  dense_attention_reference(DenseAttention(call, 3), call, expected);
}
void reference(const ReferenceCall& call, Expected& expected) {
  reference_not_finite(call, expected);
  refuse_unseen(expected, "attention_ragged");
}

Case make(Profile profile, const RaggedShape& s) {
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION_RAGGED;
  c.profile = profile;
  c.level = level_training;
  // Matrix units multiply a value with the 0 of a row that does not see it (plugin-api/OPS.md, "Conversions").
  if (!s.nan_example) c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  add_ragged_inputs(c, s);
  c.outputs = {output(s.dtype, {s.rows(), s.heads, s.dv}, s.y_layout)};
  if (s.lse) c.outputs.push_back(output(QUERN_F32, {s.rows(), s.heads}));
  finish_ragged_case(c, s);
  c.reference = s.nan_example ? reference_not_finite : reference;
  return c;
}

/// q of more than 2^31 elements. v is narrow: the host then needs some 20 GB.
void huge(CaseSink& sink) {
  RaggedShape s = many_examples(3201);
  s.heads = 64;
  s.kv_heads = 1;
  s.d = 256;
  s.dv = 8;
  Case c = make(Profile::huge, s);
  c.reference = some_examples(s, c.reference);
  c.deadline_seconds = 600;
  sink.add(std::move(c));
}

void generate(CaseSink& sink) {
  each_ragged_shape(0b111, 0b11, [&](Profile profile, const RaggedShape& s) { sink.add(make(profile, s)); });
  for (const quern_dtype dtype : float_dtypes) {
    RaggedShape s;
    s.dtype = dtype;
    s.lengths = {3, 9};
    s.lse = false;
    sink.add(make(Profile::quick, s));
    s.lse = true;
    s.data = DataKind::positive;
    for (const double scale : {-16.0, -512.0}) {  // scores near -150, and near -5000: the lse too
      s.scale = scale;
      sink.add(make(Profile::quick, s));
    }
  }
  huge(sink);
}

}  // namespace

extern const Family attention_ragged_family;
const Family attention_ragged_family = {"attention_ragged", generate};

}  // namespace quern::conformance
