// See model_reference.hpp.
#include "audit/model_reference.hpp"

#include <algorithm>
#include <cmath>

namespace quern::conformance {
namespace {

using Row = std::vector<double>;

constexpr double u = 0x1p-24;
constexpr double bf16 = 0x1p-9 / 1.7320508075688772;  // a uniform error of half a step, in the mean square
constexpr std::size_t conversion_group = 256;

/// Displaces values as rounding does.
class Displacement {
 public:
  Displacement(Rounding rounding, const CounterRandom& random) : rounding_(rounding), random_(random) {}

  bool any() const { return rounding_ != Rounding::none; }
  double by(double deviation) { return any() ? deviation * random_.gaussian(next_++) : 0; }
  /// Each element by a share of itself.
  void share(Row& row, double of_each) {
    if (any())
      for (double& x : row) x += by(of_each * std::abs(x));
  }
  /// What fast numerics makes of a product's activations.
  Row converted(const Row& x) {
    Row result = x;
    if (rounding_ != Rounding::fast) return result;
    for (std::size_t first = 0; first < x.size(); first += conversion_group) {
      const std::size_t last = std::min(x.size(), first + conversion_group);
      double most = 0;
      for (std::size_t i = first; i < last; ++i) most = std::max(most, std::abs(x[i]));
      for (std::size_t i = first; i < last; ++i) result[i] += by(most / 127 / std::sqrt(12.0));
    }
    return result;
  }
  /// Of what attention reads.
  void to_bf16(Row& row) {
    if (rounding_ == Rounding::fast) share(row, bf16);
  }

 private:
  Rounding rounding_;
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

double length(const double* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

class Forward {
 public:
  Forward(const RandomModel& model, Rounding rounding, const CounterRandom& random)
      : model_(model), s_(model.shape()), d_(rounding, random) {}

  std::vector<Row> logits(const std::vector<std::int32_t>& ids) {
    const ModelTensor& table = model_.tensor("token_embd.weight");
    std::vector<Row> x;
    for (const std::int32_t id : ids)
      x.emplace_back(table.values.begin() + id * table.columns, table.values.begin() + (id + 1) * table.columns);
    for (std::uint32_t layer = 0; layer < s_.layers; ++layer) {
      add(x, product(attend(x, layer), model_.of_layer(layer, "attn_output.weight"), nullptr));
      add(x, feed_forward(x, layer));
    }
    const ModelTensor& head = s_.tied ? table : model_.tensor("output.weight");
    return product(normed(x, model_.tensor("output_norm.weight")), head, nullptr);
  }

 private:
  std::vector<Row> product(const std::vector<Row>& x, const ModelTensor& w, const ModelTensor* bias) {
    const auto rows = static_cast<std::size_t>(w.rows), columns = static_cast<std::size_t>(w.columns);
    Row lengths(rows);
    if (d_.any())
      for (std::size_t r = 0; r < rows; ++r) lengths[r] = length(&w.values[r * columns], columns);
    std::vector<Row> y;
    for (const Row& given : x) {
      const Row row = d_.converted(given);
      const double size = d_.any() ? length(row.data(), columns) : 0;
      Row& out = y.emplace_back(rows);
      for (std::size_t r = 0; r < rows; ++r) {
        out[r] = dot(row.data(), &w.values[r * columns], columns) + (bias != nullptr ? bias->values[r] : 0);
        out[r] += d_.by(2 * u * size * lengths[r]);
      }
    }
    return y;
  }

  Row norm_of(const double* x, const ModelTensor& weight) {
    const std::size_t n = weight.values.size();
    const double size = length(x, n), scale = 1 / std::sqrt(size * size / static_cast<double>(n) + static_cast<double>(s_.epsilon));
    Row y(n);
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight.values[i];
    d_.share(y, 4 * u);
    return y;
  }
  std::vector<Row> normed(const std::vector<Row>& x, const ModelTensor& weight) {
    std::vector<Row> y;
    for (const Row& row : x) y.push_back(norm_of(row.data(), weight));
    return y;
  }
  void normalise_heads(std::vector<Row>& x, const ModelTensor& weight) {
    for (Row& row : x)
      for (std::size_t at = 0; at < row.size(); at += s_.head_size)
        std::ranges::copy(norm_of(&row[at], weight), row.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// Row t of x stands at position t.
  void rotate(std::vector<Row>& x) {
    const std::size_t pairs = s_.rope_size / 2, apart = s_.pairs_half_apart() ? pairs : 1, step = s_.pairs_half_apart() ? 1 : 2;
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t p = 0; p < pairs; ++p) {
        double angle = static_cast<double>(t) * std::pow(static_cast<double>(s_.rope_base), -2.0 * static_cast<double>(p) / s_.rope_size);
        angle += d_.by(u * (1 + angle));
        const double c = std::cos(angle), n = std::sin(angle);
        for (std::size_t head = 0; head < x[t].size(); head += s_.head_size) {
          double &a = x[t][head + p * step], &b = x[t][head + p * step + apart];
          const double was = a;
          a = was * c - b * n;
          b = was * n + b * c;
        }
      }
    for (Row& row : x) d_.share(row, 2 * u);
  }

  std::vector<Row> attend(const std::vector<Row>& x, std::uint32_t layer) {
    const auto weight = [&](const char* part) -> const ModelTensor& { return model_.of_layer(layer, part); };
    const auto bias = [&](const char* part) { return s_.biases() ? &weight(part) : nullptr; };
    const std::vector<Row> y = normed(x, weight("attn_norm.weight"));
    std::vector<Row> q = product(y, weight("attn_q.weight"), bias("attn_q.bias"));
    std::vector<Row> k = product(y, weight("attn_k.weight"), bias("attn_k.bias"));
    std::vector<Row> v = product(y, weight("attn_v.weight"), bias("attn_v.bias"));
    if (s_.norms_of_heads()) {
      normalise_heads(q, weight("attn_q_norm.weight"));
      normalise_heads(k, weight("attn_k_norm.weight"));
    }
    rotate(q);
    rotate(k);
    for (std::vector<Row>* rows : {&q, &k, &v})
      for (Row& row : *rows) d_.to_bf16(row);
    std::vector<Row> mixed(x.size(), Row(std::size_t{s_.heads} * s_.head_size));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t head = 0; head < s_.heads; ++head) attend_one(q, k, v, t, head, mixed[t]);
    return mixed;
  }

  void attend_one(const std::vector<Row>& q, const std::vector<Row>& k, const std::vector<Row>& v, std::size_t t, std::size_t head,
                  Row& mixed) {
    const std::size_t n = s_.head_size, from = head / (s_.heads / s_.kv_heads) * n;
    const std::size_t first = s_.window != 0 && t + 1 > s_.window ? t + 1 - s_.window : 0;
    const double* query = &q[t][head * n];
    const double scale = 1 / std::sqrt(static_cast<double>(n)), size = d_.any() ? length(query, n) : 0;
    Row shares;
    double most = -INFINITY;
    for (std::size_t i = first; i <= t; ++i) {
      shares.push_back(dot(query, &k[i][from], n) * scale);
      if (d_.any()) shares.back() += d_.by(2 * u * scale * size * length(&k[i][from], n) + 2 * u * std::abs(shares.back()));
      most = std::max(most, shares.back());
    }
    double sum = 0;
    for (double& share : shares) sum += share = std::exp(share - most);
    for (double& share : shares) share /= sum;
    d_.share(shares, 4 * u);
    d_.to_bf16(shares);
    for (std::size_t i = first; i <= t; ++i)
      for (std::size_t e = 0; e < n; ++e) mixed[head * n + e] += shares[i - first] * v[i][from + e];
    if (!d_.any()) return;
    const double width = length(shares.data(), shares.size());
    for (std::size_t e = 0; e < n; ++e) {
      double size_of_values = 0;
      for (std::size_t i = first; i <= t; ++i) size_of_values = std::max(size_of_values, std::abs(v[i][from + e]));
      mixed[head * n + e] += d_.by(2 * u * width * size_of_values * std::sqrt(static_cast<double>(shares.size())));
    }
  }

  std::vector<Row> feed_forward(const std::vector<Row>& x, std::uint32_t layer) {
    const std::vector<Row> y = normed(x, model_.of_layer(layer, "ffn_norm.weight"));
    std::vector<Row> gate = product(y, model_.of_layer(layer, "ffn_gate.weight"), nullptr);
    const std::vector<Row> up = product(y, model_.of_layer(layer, "ffn_up.weight"), nullptr);
    for (std::size_t t = 0; t < gate.size(); ++t) {
      for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] = gate[t][i] / (1 + std::exp(-gate[t][i])) * up[t][i];
      d_.share(gate[t], 4 * u);
    }
    return product(gate, model_.of_layer(layer, "ffn_down.weight"), nullptr);
  }

  void add(std::vector<Row>& x, const std::vector<Row>& y) {
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
      d_.share(x[t], u);
    }
  }

  const RandomModel& model_;
  const ModelShape& s_;
  Displacement d_;
};

}  // namespace

std::vector<std::vector<double>> model_logits(const RandomModel& model, const std::vector<std::int32_t>& ids, Rounding rounding,
                                              const CounterRandom& random) {
  return Forward(model, rounding, random).logits(ids);
}

ExpectedLogits expected_logits(const RandomModel& model, const std::vector<std::int32_t>& ids, Rounding rounding,
                               const CounterRandom& random) {
  constexpr std::uint64_t times = 3;
  ExpectedLogits expected{model_logits(model, ids, Rounding::none, random), std::vector<double>(ids.size())};
  for (std::uint64_t round = 0; round < times; ++round) {
    const auto displaced = model_logits(model, ids, rounding, random.stream(round));
    for (std::size_t t = 0; t < ids.size(); ++t)
      for (std::size_t i = 0; i < displaced[t].size(); ++i) expected.deviation[t] += std::pow(displaced[t][i] - expected.logits[t][i], 2);
  }
  for (std::size_t t = 0; t < ids.size(); ++t)
    expected.deviation[t] = std::sqrt(expected.deviation[t] / static_cast<double>(times * expected.logits[t].size()));
  return expected;
}

}  // namespace quern::conformance
