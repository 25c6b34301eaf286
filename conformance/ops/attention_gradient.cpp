// See attention_gradient.hpp.
#include "ops/attention_gradient.hpp"

namespace quern::conformance {
namespace {

/// A factor of products: its value, how far it may be off in f32, and its deviation by the conversions of fast numerics but its own.
struct Weight {
  double value, error, sigma;
};

/// Sums of weights times numbers, one an element of a gradient. `conversion`: of both factors of a product.
struct Gradient {
  Gradient(const Tensor& like, double conversion)
      : conversion(conversion), value(like.values().size()), error(value.size()), scale(value.size()), terms(value.size()) {
    if (conversion != 0) shifted.resize(value.size()), squares.resize(value.size());
  }
  double conversion;
  std::vector<double> value, error, scale, terms, shifted, squares;

  void add(std::int64_t first, std::int64_t count, const Weight& weight, const double* x) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(first + i);
      const double product = weight.value * x[i];
      value[at] += product;
      error[at] += weight.error * std::fabs(x[i]);
      scale[at] += std::fabs(product);
      terms[at] += 1;
      if (conversion == 0) continue;
      shifted[at] += weight.sigma * std::fabs(x[i]);
      squares[at] += 2.0 * conversion * product * conversion * product;
    }
  }
  void expect(quern_dtype dtype, ExpectedOutput& out) const {
    out.rule = Rule::bounded;
    for (std::size_t i = 0; i < value.size(); ++i) {
      out.add(value[i], error[i] + (4.0 * std::sqrt(terms[i]) + 32.0) * u32 * scale[i] + narrow_store(dtype, value[i]));
      if (conversion != 0) out.deviation.push_back(shifted[i] + std::sqrt(squares[i] / 3.0));
    }
  }
};

struct Dot {
  double value = 0, bound = 0, squares = 0;
};
Dot dot(Tier tier, const double* a, const double* b, std::int64_t n) {
  double sum = 0, scale = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double product = a[i] * b[i];
    sum += product;
    scale += std::fabs(product);
    squares += product * product;
  }
  return {sum, accumulation_bound(tier, static_cast<double>(n), scale), squares};
}

void nothing(const Tensor&, const CounterRandom&) {}

}  // namespace

void dense_attention_reference(const DenseAttention& attention, const ReferenceCall& call, Expected& expected) {
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  const bool wants_lse = expected.outputs.size() > 1 && call.what.outputs.size() > 1 && !call.what.outputs[1].absent();
  if (wants_lse) expected.outputs[1].rule = Rule::bounded;
  AttentionRow row(attention.rules());
  attention.each_row([&](std::int64_t batch, std::int64_t query, std::int64_t head) {
    attention.fill_row(row, batch, query, head);
    const std::optional<double> sink = attention.sink(head);
    row.close(sink ? &*sink : nullptr);
    row.weigh(
        attention.value_size(), [&](std::int64_t key) { return attention.value(batch, key, head); }, call.what.outputs[0].dtype, y);
    if (!wants_lse) return;
    expected.outputs[1].add(row.lse(), row.lse_bound() + narrow_store(call.what.outputs[1].dtype, row.lse()));
    if (call.what.fast_conversions == 0) return;
    double sigma = 0;
    for (const AttentionRow::Key& key : row.keys()) sigma += key.p * key.sigma;
    expected.outputs[1].deviation.push_back(sigma);
  });
}

void attention_gradient_reference(const DenseAttention& attention, const ReferenceCall& call, std::size_t y_in, Expected& expected) {
  const AttentionRules rules = attention.rules();
  const std::vector<double> y = call.inputs[y_in].values(), lse = call.inputs[y_in + 1].values(), dy = call.inputs[y_in + 2].values();
  AttentionRow row(rules);
  const double conversion = row.relative_conversion();
  Gradient dq(call.inputs[0], conversion), dk(call.inputs[1], conversion), dv(call.inputs[2], conversion);
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
      dv.add(key_row * size, size, {key.p, key.p * e, key.p * key.sigma}, row_dy);
      const Dot dp = dot(rules.tier, row_dy, attention.value(batch, key.index, head), size);
      const double scaled = key.p * std::fabs(rules.scale), difference_of_dp = std::fabs(dp.value - inner.value);
      const double bend = rules.softcap > 0 ? 2.0 / rules.softcap : 0.0;  // d slope / d score, at most
      Weight ds{key.p * rules.scale * key.slope * (dp.value - inner.value), 0, 0};
      ds.error = std::fabs(ds.value) * (e + 8 * u32) + scaled * (key.slope * (dp.bound + inner.bound) + difference_of_dp * key.slope_error);
      ds.sigma = (std::fabs(ds.value) + scaled * difference_of_dp * bend) * key.sigma +
                 scaled * key.slope * conversion * std::sqrt(2.0 * dp.squares / 3.0);
      dq.add(index * d, d, ds, attention.key(batch, key.index, head));
      dk.add(key_row * d, d, ds, attention.query(batch, query, head));
    }
  });
  dq.expect(call.what.outputs[0].dtype, expected.outputs[0]);
  dk.expect(call.what.outputs[1].dtype, expected.outputs[1]);
  dv.expect(call.what.outputs[2].dtype, expected.outputs[2]);
}

void derive_attention(const DenseAttention& attention, const ReferenceCall& call, std::size_t y_in) {
  ExpectedOutput y;
  AttentionRow row(attention.rules());
  std::int64_t at = 0;
  attention.each_row([&](std::int64_t batch, std::int64_t query, std::int64_t head) {
    attention.fill_row(row, batch, query, head);
    const std::optional<double> sink = attention.sink(head);
    row.close(sink ? &*sink : nullptr);
    row.weigh(
        attention.value_size(), [&](std::int64_t key) { return attention.value(batch, key, head); }, QUERN_F32, y);
    call.inputs[y_in + 1].set(at++, row.lse());
  });
  for (std::size_t i = 0; i < y.value.size(); ++i) call.inputs[y_in].set(static_cast<std::int64_t>(i), y.value[i]);
}

void add_forward_inputs(Case& c, const DenseShape& s, const Dims& rows) {
  Dims of_lse = rows;
  of_lse.pop_back();
  c.inputs.push_back(filled(input(s.dtype, rows, s.data, s.y_layout), "of_forward", nothing));
  c.inputs.push_back(filled(input(QUERN_F32, of_lse), "of_forward", nothing));
  c.inputs.push_back(input(s.dtype, rows, DataKind::gaussian, s.y_layout));
}

}  // namespace quern::conformance
