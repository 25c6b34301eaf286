// attention_dense: softmax attention over dense keys and values, with the log of the sum of exp. Bounds: attention_reference.hpp.
//
// Keys that no query sees are NaN; those that causality or the window hide from some queries hold 1000, so that a weight leaked shows.
#include "ops/attention_gradient.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  dense_attention_reference(DenseAttention(call, 3, 4), call, expected);
  refuse_unseen(expected, "attention_dense");
}

Case make(Profile profile, const DenseShape& s) {
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION_DENSE;
  c.profile = profile;
  c.level = level_training;
  c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  add_dense_inputs(c, s);
  add_mask_and_sinks(c, s);
  c.outputs = {output(s.dtype, {s.batch, s.queries, s.heads, s.dv}, s.y_layout)};
  if (s.lse) c.outputs.push_back(output(QUERN_F32, {s.batch, s.queries, s.heads}));
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
    s.lse = false;
    sink.add(make(Profile::quick, s));
    s.lse = true;
    for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::one_hot}) {
      s.data = data;
      sink.add(make(Profile::quick, s));
    }
    s.data = DataKind::positive;
    for (const double scale : {-16.0, -512.0}) {  // scores near -150, and near -5000: the lse too
      s.scale = scale;
      sink.add(make(Profile::quick, s));
    }
    s.scale = 0;
    s.data = DataKind::gaussian;
    for (const Layout& layout : {rows_apart(3), ordered({0, 2, 1, 3}), ordered({1, 0, 2, 3}), shifted()}) {
      s.layout = layout;
      sink.add(make(Profile::quick, s));
      s.layout = {};
      s.y_layout = layout;
      sink.add(make(Profile::quick, s));
      s.y_layout = {};
    }
    s.queries = 0;
    sink.add(make(Profile::full, s));
    s.queries = 1;  // long rows: one query over many keys
    for (const std::int64_t keys : {512, 1025, 4096}) {
      s.keys = keys;
      s.offset = keys - 1;
      sink.add(make(Profile::full, s));
    }
  }
  // At, below and above the limits of kernels: keys of a block, elements of a head and of its value.
  for (const std::int64_t keys : {63, 64, 65}) {
    DenseShape s;
    s.queries = 3;
    s.keys = keys;
    s.offset = keys - 3;
    sink.add(make(Profile::full, s));
  }
  for (const std::int64_t size : {63, 64, 65, 255, 256}) {  // more than 256 is more than what kernels of ours take
    DenseShape s;
    s.queries = s.keys = 6;
    s.d = s.dv = size;
    sink.add(make(Profile::full, s));
  }
}

}  // namespace

extern const Family attention_dense_family;
const Family attention_dense_family = {"attention_dense", generate};

}  // namespace quern::conformance
