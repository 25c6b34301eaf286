// attention_backward: gradients of attention_dense. y and lse are those of the forward pass, rounded to their dtypes.
//
// With p = exp(s - lse), d = dy . y and dp = dy . v: dv = sum p dy, ds = p (dp - d) * softcap's slope * scale, dq = sum ds k, dk = sum ds
// q. Errors, first order: p is off by e = |error of s| + 2 u (|s| + |lse|) (0 where both are one number) + 8 u relatively; dp and d each by
// the bound of their sums; the slope by its own error; so ds by |ds| (e + 8 u) + p |scale| (slope (E(dp) + E(d)) + |dp - d| E(slope)). A
// sum of n terms w x adds (4 sqrt(n) + 32) u sum |w x| to sum E(w) |x|.
#include "ops/dense_attention.hpp"

namespace quern::conformance {
namespace {

enum { in_q, in_k, in_v, in_y, in_lse, in_dy, in_mask, in_sinks };

/// The forward pass, into y and lse.
void derive(const ReferenceCall& call) {
  const DenseAttention attention(call, in_mask, in_sinks);
  ExpectedOutput y;
  AttentionRow row(attention.rules());
  std::int64_t at = 0;
  attention.each_row([&](std::int64_t batch, std::int64_t query, std::int64_t head) {
    attention.fill_row(row, batch, query, head);
    const std::optional<double> sink = attention.sink(head);
    row.close(sink ? &*sink : nullptr);
    row.weigh(
        attention.value_size(), [&](std::int64_t key) { return attention.value(batch, key, head); }, QUERN_F32, y);
    call.inputs[in_lse].set(at++, row.lse());
  });
  for (std::size_t i = 0; i < y.value.size(); ++i) call.inputs[in_y].set(static_cast<std::int64_t>(i), y.value[i]);
}

/// Sums of products with the errors of their weights, one an element of a gradient.
struct Gradient {
  explicit Gradient(const Tensor& like) : value(like.values().size()), error(value.size()), scale(value.size()), terms(value.size()) {}
  std::vector<double> value, error, scale, terms;

  void add(std::int64_t first, std::int64_t count, double weight, double weight_error, const double* x) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(first + i);
      value[at] += weight * x[i];
      error[at] += weight_error * std::fabs(x[i]);
      scale[at] += std::fabs(weight * x[i]);
      terms[at] += 1;
    }
  }
  void expect(quern_dtype dtype, ExpectedOutput& out) const {
    out.rule = Rule::bounded;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (std::isnan(value[i])) throw UnseenRead("the reference of attention_backward read a key that no query sees");
      out.add(value[i], error[i] + (4.0 * std::sqrt(terms[i]) + 32.0) * u32 * scale[i] + narrow_store(dtype, value[i]));
    }
  }
};

struct Dot {
  double value = 0, bound = 0;
};
Dot dot(Tier tier, const double* a, const double* b, std::int64_t n) {
  double sum = 0, scale = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i], scale += std::fabs(a[i] * b[i]);
  return {sum, accumulation_bound(tier, static_cast<double>(n), scale)};
}

void reference(const ReferenceCall& call, Expected& expected) {
  const DenseAttention attention(call, in_mask, in_sinks);
  const AttentionRules rules = attention.rules();
  const std::vector<double> y = call.inputs[in_y].values(), lse = call.inputs[in_lse].values(), dy = call.inputs[in_dy].values();
  Gradient dq(call.inputs[in_q]), dk(call.inputs[in_k]), dv(call.inputs[in_v]);
  AttentionRow row(rules);
  const std::int64_t d = attention.key_size(), size = attention.value_size();
  attention.each_row([&](std::int64_t batch, std::int64_t query, std::int64_t head) {
    const std::int64_t index = attention.row_index(batch, query, head);
    attention.fill_row(row, batch, query, head);
    const double row_lse = lse[static_cast<std::size_t>(index)];
    row.close_with(row_lse);
    const double* row_dy = dy.data() + index * size;
    const Dot inner = dot(rules.tier, row_dy, y.data() + index * size, size);
    for (const AttentionRow::Key& key : row.keys()) {
      if (key.p == 0.0) continue;
      const double difference = key.score == row_lse ? 0.0 : 2 * u32 * (std::fabs(key.score) + std::fabs(row_lse));
      const double e = std::expm1(key.error + difference + 8 * u32) + (key.p < 0x1p-126 ? 1.0 : 0.0);  // below the normals p may be 0
      const std::int64_t key_row = attention.key_row(batch, key.index, head);
      dv.add(key_row * size, size, key.p, key.p * e, row_dy);
      const Dot dp = dot(rules.tier, row_dy, attention.value(batch, key.index, head), size);
      const double scaled = key.p * std::fabs(rules.scale), ds = key.p * rules.scale * key.slope * (dp.value - inner.value);
      const double ds_error = std::fabs(ds) * (e + 8 * u32) +
                              scaled * (key.slope * (dp.bound + inner.bound) + std::fabs(dp.value - inner.value) * key.slope_error);
      dq.add(index * d, d, ds, ds_error, attention.key(batch, key.index, head));
      dk.add(key_row * d, d, ds, ds_error, attention.query(batch, query, head));
    }
  });
  dq.expect(call.what.outputs[0].dtype, expected.outputs[0]);
  dk.expect(call.what.outputs[1].dtype, expected.outputs[1]);
  dv.expect(call.what.outputs[2].dtype, expected.outputs[2]);
}

void nothing(const Tensor&, const CounterRandom&) {}

Case make(Profile profile, const DenseShape& s) {
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  add_dense_inputs(c, s);
  const Dims rows = {s.batch, s.queries, s.heads, s.dv};
  c.inputs.push_back(filled(input(s.dtype, rows, s.data, s.y_layout), "of_forward", nothing));
  c.inputs.push_back(filled(input(QUERN_F32, {s.batch, s.queries, s.heads}), "of_forward", nothing));
  c.inputs.push_back(input(s.dtype, rows, DataKind::gaussian, s.y_layout));
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
