// The choice of experts, the sum of what they gave, and adapters of rows. (matmul_id is with matmul.)
//
// moe_router chooses; its ids are shown by every run, and what follows is judged by the experts that the device chose. An id is right if no
// expert behind it is better by more than 8 deviations and the f32 error of both keys. Weights of the chosen have the bounds of
// ops/moe_router.cpp. Their deviations follow the logits to the first order: dw_u / dx_v = w_u (d_uv - w_v) for a softmax that is renormalised
// (scale 1), with the scores in place of w_v where it is not, and the quotient rule for sigmoids.
#include "graphs/reference/node_reference.hpp"

#include "ops/family.hpp"
#include "ops/lora_pool.hpp"
#include "ops/moe_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// What the experts of one row are ordered by, and how far each may be off.
struct Keys {
  std::vector<double> value, tolerance;
};

double sigmoid_slope(double score) { return score * (1 - score); }

/// d score_e / d x_j.
double score_slope(const std::vector<double>& score, bool sigmoid, std::size_t e, std::size_t j) {
  if (sigmoid) return e == j ? sigmoid_slope(score[e]) : 0.0;
  return score[e] * ((e == j ? 1.0 : 0.0) - score[j]);
}

Keys keys_of(const std::vector<double>& x, const std::vector<double>& s, const MoeScores& scores, bool sigmoid, const Operand* bias) {
  if (bias == nullptr) {
    Keys keys{x, s};
    for (double& t : keys.tolerance) t *= 8;
    return keys;
  }
  Keys keys;
  for (std::size_t e = 0; e < x.size(); ++e) {
    double square = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double moved = score_slope(scores.score, sigmoid, e, j) * s[j];
      square += moved * moved;
    }
    keys.value.push_back(scores.score[e] + bias->tensor->at(static_cast<std::int64_t>(e)));
    keys.tolerance.push_back(8 * std::sqrt(square) + scores.error[e] * scores.score[e] + u32 * std::fabs(keys.value.back()));
  }
  return keys;
}

std::string wrong_choice(const Keys& keys, const Tensor& found, std::int64_t row, std::int64_t used) {
  std::vector<bool> taken(keys.value.size(), false);
  for (std::int64_t u = 0; u < used; ++u) {
    const auto id = static_cast<std::int64_t>(found.at(row * used + u));
    const std::string words = "row " + std::to_string(row) + ": choice " + std::to_string(u) + " is expert " + std::to_string(id);
    if (id < 0 || id >= static_cast<std::int64_t>(taken.size())) return words + ", and there is none";
    const auto e = static_cast<std::size_t>(id);
    if (taken[e]) return words + ", which was chosen before";
    taken[e] = true;
    for (std::size_t other = 0; other < taken.size(); ++other) {
      const double lead = keys.value[other] - keys.value[e];
      if (!taken[other] && (lead > keys.tolerance[e] + keys.tolerance[other] ||
                            (lead == 0 && keys.tolerance[e] == 0 && keys.tolerance[other] == 0 && other < e)))
        return words + ", expected " + std::to_string(other) + ", which is better by " + std::to_string(lead);
    }
  }
  return {};
}

/// Logits of one row, their deviations and their scores.
struct RouterRow {
  std::vector<double> x, s;
  MoeScores scores;
};

void add_weights(const NodeCall& call, const RouterRow& row, const std::vector<std::size_t>& chosen, Result& weight) {
  const bool sigmoid = call.attribute(QUERN_KEY_KIND, 0) == 1, renormalise = call.attribute(QUERN_KEY_RENORMALISE, 1) != 0;
  const double scale = call.attribute(QUERN_KEY_SCALE, 1);
  const std::vector<double>& score = row.scores.score;
  double sum = 0, error = 0;
  for (const std::size_t e : chosen) sum += score[e], error = std::max(error, row.scores.error[e]);
  const double divisor = renormalise && sum != 0 ? sum : 1;
  for (const std::size_t e : chosen) {
    const double r = score[e] / divisor * scale;
    double square = 0;
    for (std::size_t j = 0; j < score.size(); ++j) {
      double slope = score_slope(score, sigmoid, e, j);
      if (divisor != 1)
        for (const std::size_t other : chosen) slope -= score[e] / divisor * score_slope(score, sigmoid, other, j);
      const double moved = scale * slope / divisor * row.s[j];
      square += moved * moved;
    }
    weight.add(r,
               (row.scores.error[e] + (renormalise ? error : 0) + (8 + static_cast<double>(chosen.size())) * u32) * std::fabs(r) +
                   0x1p-126 * std::fabs(scale),
               std::sqrt(square));
  }
}

double relative_step(std::uint32_t conversions) {
  return (conversions & QUERN_CONVERT_BF16) != 0 ? 0x1p-8 : conversions != 0 ? 0x1p-11 : 0.0;
}

/// One row through its adapter: E_acc and conversions as ops/lora_matmul.cpp has them; s_in by the whole matrix c B A, whose inputs are independent.
class AdapterRow {
 public:
  AdapterRow(const NodeCall& call, std::int64_t row, std::int64_t k, std::int64_t n, const std::vector<double>& pool)
      : pool_(pool),
        adapter_(adapter_of(k, *call.input(1).tensor, *call.input(2).tensor, slot(call, row), n)),
        known_(adapter_ || slot(call, row) == -1),
        k_(k) {
    step_ = relative_step(call.numerics == Numerics::fast ? call.node.fast_conversions : 0);
    tier_ = call.input(0).exact() && call.input(0).tensor->dtype() != QUERN_F32 && call.input(1).tensor->dtype() != QUERN_F32 ? Tier::t2
                                                                                                                              : Tier::t1;
    c_ = adapter_ ? call.attribute(QUERN_KEY_ALPHA, 1) * adapter_->scale : 0.0;
    std::vector<double> x(static_cast<std::size_t>(k));
    s_.resize(x.size());
    call.input(0).read(row * k, k, x.data());
    call.input(0).read_deviation(row * k, k, s_.data());
    for (std::int64_t r = 0; adapter_ && r < adapter_->rank; ++r) {
      double sum = 0, scale = 0, squares = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double product = x[static_cast<std::size_t>(l)] * a(r, l);
        sum += product, scale += std::fabs(product), squares += product * product;
      }
      h_.push_back({sum, accumulation_bound(tier_, static_cast<double>(k), scale), step_ * step_ * (2 * squares + sum * sum) / 3});
    }
  }

  void add(std::int64_t i, double base, double base_s, quern_dtype dtype, Result& y) const {
    const double under = known_ ? base : 0.0;
    double sum = 0, scale = 0, moved = 0, variance = 0;
    for (std::size_t r = 0; r < h_.size(); ++r) {
      const double weight = b(i, r);
      sum += weight * h_[r].value, scale += std::fabs(weight * h_[r].value), moved += std::fabs(weight) * h_[r].bound;
      variance += weight * weight * (h_[r].variance + step_ * step_ * h_[r].value * h_[r].value / 3);
    }
    if (std::ranges::any_of(s_, [](double s) { return s != 0; }))
      for (std::int64_t l = 0; l < k_; ++l) {
        double slope = 0;
        for (std::size_t r = 0; r < h_.size(); ++r) slope += b(i, r) * a(static_cast<std::int64_t>(r), l);
        variance += slope * slope * s_[static_cast<std::size_t>(l)] * s_[static_cast<std::size_t>(l)];
      }
    const double r = under + c_ * sum, own = accumulation_bound(tier_, static_cast<double>(h_.size()), scale) + moved;
    y.add(r, h_.empty() ? 0.0 : std::fabs(c_) * own + 4 * u32 * (std::fabs(under) + std::fabs(c_) * scale) + narrow_store(dtype, r),
          std::hypot(known_ ? base_s : 0.0, c_ * std::sqrt(variance)));
  }

 private:
  struct Low {
    double value, bound, variance;
  };
  static std::int64_t slot(const NodeCall& call, std::int64_t row) { return static_cast<std::int64_t>(call.input(3).tensor->at(row)); }
  double a(std::int64_t r, std::int64_t l) const { return pool_[static_cast<std::size_t>(adapter_->a + r * k_ + l)]; }
  double b(std::int64_t i, std::size_t r) const { return pool_[static_cast<std::size_t>(adapter_->b + i * adapter_->rank) + r]; }

  const std::vector<double>& pool_;
  std::optional<AdapterPlace> adapter_;
  bool known_;
  std::int64_t k_;
  Tier tier_;
  double step_, c_;
  std::vector<double> s_;
  std::vector<Low> h_;
};

}  // namespace

void moe_router_node(const NodeCall& call, Result& id, Result& weight) {
  const Operand& logits = call.input(0);
  const std::int64_t experts = logits.last(), used = static_cast<std::int64_t>(call.attribute(QUERN_KEY_USED, 0)),
                     rows = logits.count() / experts;
  const Tensor* const shown = call.shown[0];
  if (shown == nullptr) throw std::logic_error("the ids of a router of a whole graph are an output");
  const bool sigmoid = call.attribute(QUERN_KEY_KIND, 0) == 1;
  std::vector<Keys> keys;
  for (std::int64_t t = 0; t < rows; ++t) {
    RouterRow row{std::vector<double>(static_cast<std::size_t>(experts)), std::vector<double>(static_cast<std::size_t>(experts)), {}};
    logits.read(t * experts, experts, row.x.data());
    logits.read_deviation(t * experts, experts, row.s.data());
    row.scores = moe_scores(row.x, sigmoid);
    keys.push_back(keys_of(row.x, row.s, row.scores, sigmoid, call.has(1) ? &call.input(1) : nullptr));
    std::vector<std::size_t> chosen;
    for (std::int64_t u = 0; u < used; ++u)  // one that is none fails by the check of ids
      chosen.push_back(static_cast<std::size_t>(std::clamp<double>(shown->at(t * used + u), 0, static_cast<double>(experts - 1))));
    add_weights(call, row, chosen, weight);
  }
  id.check = [keys = std::move(keys), used](const Tensor& found) -> std::string {
    for (std::size_t t = 0; t < keys.size(); ++t)
      if (std::string text = wrong_choice(keys[t], found, static_cast<std::int64_t>(t), used); !text.empty()) return text;
    return {};
  };
}

void moe_combine_node(const NodeCall& call, Result& y) {
  const Operand &x = call.input(0), &weight = call.input(1);
  const std::int64_t used = x.dims[1], n = x.dims[2];
  const std::vector<double> values = x.values(), s = x.deviations(), w = weight.values(), ws = weight.deviations();
  for (std::int64_t t = 0; t < x.dims[0]; ++t)
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0, scale = 0, square = 0;
      for (std::int64_t u = 0; u < used; ++u) {
        const auto pair = static_cast<std::size_t>(t * used + u), at = pair * static_cast<std::size_t>(n) + static_cast<std::size_t>(i);
        sum += w[pair] * values[at], scale += std::fabs(w[pair] * values[at]);
        square += w[pair] * w[pair] * s[at] * s[at] + values[at] * values[at] * ws[pair] * ws[pair];
      }
      y.add(sum, accumulation_bound(Tier::t1, static_cast<double>(used), scale) + narrow_store(call.dtypes[0], sum), std::sqrt(square));
    }
}

void lora_matmul_node(const NodeCall& call, Result& y) {
  const Operand &x = call.input(0), &pool = call.input(1);
  if (!pool.exact()) throw std::logic_error("the adapters of a whole graph are known");
  const bool has_base = call.has(4);
  if (!has_base) throw std::logic_error("lora_matmul of a whole graph has a base");
  const std::int64_t k = x.last(), rows = x.count() / k, n = call.input(4).last();
  const std::vector<double> weights = pool.values(), base = call.input(4).values(), base_s = call.input(4).deviations();
  for (std::int64_t t = 0; t < rows; ++t) {
    const AdapterRow row(call, t, k, n, weights);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(t * n + i);
      row.add(i, base[at], base_s[at], call.dtypes[0], y);
    }
  }
}

}  // namespace quern::conformance
