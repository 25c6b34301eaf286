// The chain behind the head: penalties, biases, masks, and the choice of a token.
//
// Choices are discrete: a mask keeps a logit or makes it -inf, a draw takes one token. They are judged on logits that the run shows;
// where a decision is nearer to its edge than sums of n probabilities in f32 can tell, (n + 64) u, either answer is right.
#include "graphs/reference/node_reference.hpp"

#include "ops/family.hpp"
#include "ops/logit_changes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
double edge_of(std::size_t n) { return (static_cast<double>(n) + 64.0) * u32; }

struct Params {
  double temperature, top_k, top_p, min_p, repeat, presence, frequency, window;
};
Params params_of(const Operand& params, std::int64_t row) {
  double p[8];
  params.read(row * 8, 8, p);
  return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]};
}

/// From best to worst, ties to the lower token.
std::vector<std::size_t> ranked(const std::vector<double>& x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  return order;
}

std::vector<double> softmax(const std::vector<double>& x) {
  const double largest = *std::ranges::max_element(x);
  std::vector<double> p(x.size());
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp(x[i] - largest);
  for (double& v : p) v /= sum;
  return p;
}

/// Which of the ranked logits a filter keeps: the first `sure` certainly, those up to `possible` perhaps.
struct Kept {
  std::size_t sure, possible;
};
Kept by_top_k(std::size_t n, double k) {
  return k <= 0 ? Kept{n, n} : Kept{std::min(n, static_cast<std::size_t>(k)), std::min(n, static_cast<std::size_t>(k))};
}
Kept by_top_p(const std::vector<double>& p, const std::vector<std::size_t>& order, double limit) {
  if (limit >= 1) return {order.size(), order.size()};
  const double edge = edge_of(p.size());
  Kept kept{0, 0};
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (sum < limit - edge || i == 0) kept.sure = i + 1;
    if (sum < limit + edge || i == 0) kept.possible = i + 1;
    sum += p[order[i]];
  }
  return kept;
}
Kept by_min_p(const std::vector<double>& p, const std::vector<std::size_t>& order, double share) {
  const double edge = edge_of(p.size());
  Kept kept{1, 1};
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (p[order[i]] >= share * p[order[0]] * (1 + edge)) kept.sure = i + 1;
    if (p[order[i]] >= share * p[order[0]] * (1 - edge)) kept.possible = i + 1;
  }
  return kept;
}

void penalize_row(const NodeCall& call, std::int64_t row, std::vector<double>& x, std::vector<double>& bound) {
  const Params p = params_of(call.input(3), row);
  const std::int64_t capacity = call.input(1).last();
  const auto length = std::clamp<std::int64_t>(static_cast<std::int64_t>(call.input(2).tensor->at(row)), 0, capacity);
  std::map<std::int64_t, int> counts;
  for (std::int64_t i = std::max<std::int64_t>(0, length - static_cast<std::int64_t>(p.window)); i < length; ++i)
    ++counts[static_cast<std::int64_t>(call.input(1).tensor->at(row * capacity + i))];
  for (const auto& [token, count] : counts) {
    if (token < 0) continue;
    const auto place = static_cast<std::size_t>(token);
    const Logit r = penalized(x[place], count, p.repeat, p.presence, p.frequency);
    x[place] = r.value, bound[place] = r.bound;
  }
}

void bias_row(const NodeCall& call, std::int64_t row, std::vector<double>& x, std::vector<double>& bound) {
  const std::int64_t n = call.input(1).last();
  std::map<std::int64_t, BiasedLogit> biased;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto token = static_cast<std::int64_t>(call.input(1).tensor->at(row * n + i));
    if (token >= 0) biased[token].add(x[static_cast<std::size_t>(token)], call.input(2).tensor->at(row * n + i));
  }
  for (const auto& [token, logit] : biased) {
    const auto place = static_cast<std::size_t>(token);
    x[place] = logit.sum().value, bound[place] = logit.sum().bound;
  }
}

/// The words of philox4x32-10 (Salmon et al. 2011), counter (step, 0, 0, 0).
double draw(std::uint32_t step, std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t c[4] = {step, 0, 0, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0], b = std::uint64_t{0xCD9E8D57u} * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(b),
                                   static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(a)};
    std::ranges::copy(next, c);
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  return (static_cast<double>(c[0]) + 0.5) / 4294967296.0;
}

/// Whether a draw may end at `token`: at or between the tokens that u reaches when every cut and every sum is off by `edge`.
std::string wrong_token(const std::vector<double>& x, const Params& p, double u, std::int64_t token) {
  if (token < 0 || token >= static_cast<std::int64_t>(x.size())) return "token " + std::to_string(token) + " is none";
  const std::vector<std::size_t> order = ranked(x);
  if (p.temperature == 0)
    return static_cast<std::size_t>(token) == order[0]
               ? std::string()
               : "token " + std::to_string(token) + ", expected the best, " + std::to_string(order[0]);
  const std::vector<double> all = softmax(x);
  Kept kept = by_top_k(x.size(), p.top_k);
  double mass = 0;  // top-p and min-p look at what top-k kept
  std::vector<double> of_kept(x.size(), 0.0);
  for (std::size_t i = 0; i < kept.sure; ++i) mass += all[order[i]];
  for (std::size_t i = 0; i < kept.sure; ++i) of_kept[order[i]] = all[order[i]] / mass;
  for (const Kept& cut : {by_top_p(of_kept, order, p.top_p), by_min_p(of_kept, order, p.min_p)})
    kept = {std::min(kept.sure, cut.sure), std::min(kept.possible, cut.possible)};
  const double edge = edge_of(x.size());
  std::size_t lowest = x.size(), highest = 0;
  for (std::size_t count = kept.sure; count <= kept.possible; ++count) {
    double total = 0, sum = 0;
    const auto weight = [&](std::size_t i) { return std::exp((x[order[i]] - x[order[0]]) / p.temperature); };
    for (std::size_t i = 0; i < count; ++i) total += weight(i);
    for (std::size_t i = 0; i < count; ++i) {
      const double before = sum / total;
      sum += weight(i);
      if (u >= before - edge && u <= sum / total + edge) lowest = std::min(lowest, i), highest = std::max(highest, i);
    }
  }
  for (std::size_t i = lowest; i <= highest && i < x.size(); ++i)
    if (order[i] == static_cast<std::size_t>(token)) return {};
  return "token " + std::to_string(token) + " was drawn, expected " + std::to_string(order[std::min(lowest, x.size() - 1)]);
}

std::vector<double> row_of(const Operand& x, std::int64_t row) {
  std::vector<double> values(static_cast<std::size_t>(x.last()));
  x.read(row * x.last(), x.last(), values.data());
  return values;
}

}  // namespace

namespace {

/// Whether `found` is `x` with all but the best `count` logits at -inf, for a count that the filter may keep.
bool is_masked(const std::vector<double>& x, const std::vector<std::size_t>& order, Kept kept, const double* found) {
  for (std::size_t count = kept.sure; count <= kept.possible; ++count) {
    bool same = true;
    for (std::size_t i = 0; same && i < order.size(); ++i) same = found[order[i]] == (i < count ? x[order[i]] : -infinity);
    if (same) return true;
  }
  return false;
}

void mask_node(const NodeCall& call, Result& y) {
  const Operand x = call.input(0), limit = call.input(1);
  if (!x.exact()) throw std::logic_error("a mask of a whole graph reads logits that the run shows");
  y.check = [x, limit, op = call.node.op](const Tensor& found) -> std::string {
    for (std::int64_t row = 0; row < x.count() / x.last(); ++row) {
      const std::vector<double> values = row_of(x, row);
      const std::vector<std::size_t> order = ranked(values);
      const double at = limit.tensor->at(row);
      const Kept kept = op == QUERN_OP_TOP_K_MASK   ? by_top_k(values.size(), at)
                        : op == QUERN_OP_TOP_P_MASK ? by_top_p(softmax(values), order, at)
                                                    : by_min_p(softmax(values), order, at);
      std::vector<double> row_found(values.size());
      found.read(row * x.last(), x.last(), row_found.data());
      if (!is_masked(values, order, kept, row_found.data()))
        return "row " + std::to_string(row) + " does not keep its best " + std::to_string(kept.sure) + " logits alone";
    }
    return {};
  };
}

}  // namespace

void logits_node(const NodeCall& call, Result& y) {
  if (call.node.op != QUERN_OP_PENALIZE && call.node.op != QUERN_OP_LOGIT_BIAS) return mask_node(call, y);
  const Operand& x = call.input(0);
  for (std::int64_t row = 0; row < x.count() / x.last(); ++row) {
    std::vector<double> values = row_of(x, row), bound(values.size(), 0.0), s(values.size());
    x.read_deviation(row * x.last(), x.last(), s.data());
    if (call.node.op == QUERN_OP_PENALIZE) penalize_row(call, row, values, bound);
    else bias_row(call, row, values, bound);
    for (std::size_t i = 0; i < values.size(); ++i) y.add(values[i], bound[i], s[i]);
  }
}

void argmax_node(const NodeCall& call, Result& y) {
  const Operand x = call.input(0);
  y.check = [x](const Tensor& found) -> std::string {
    for (std::int64_t row = 0; row < x.count() / x.last(); ++row) {
      std::vector<double> values = row_of(x, row), s(values.size());
      x.read_deviation(row * x.last(), x.last(), s.data());
      const std::size_t best = ranked(values)[0];
      const auto at = static_cast<std::int64_t>(found.at(row));
      if (at < 0 || at >= x.last()) return "row " + std::to_string(row) + " has the index " + std::to_string(at);
      const auto i = static_cast<std::size_t>(at);
      if (i == best || (x.exact() ? false : values[i] + 8 * s[i] >= values[best] - 8 * s[best])) continue;
      return "row " + std::to_string(row) + " has the index " + std::to_string(at) + ", the largest is at " + std::to_string(best);
    }
    return {};
  };
}

void sample_node(const NodeCall& call, Result& token, Result& logprob) {
  const Operand x = call.input(0);
  if (!x.exact()) throw std::logic_error("sample of a whole graph reads logits that the run shows");
  const Operand params = call.input(1), seed = call.input(2), step = call.input(3);
  // logprob is that of the token which was drawn; where two may be, the one of the better rank stands for both in `value`.
  token.check = [=](const Tensor& found) -> std::string {
    for (std::int64_t row = 0; row < x.count() / x.last(); ++row) {
      const double u = draw(static_cast<std::uint32_t>(static_cast<std::int32_t>(step.tensor->at(row))),
                            static_cast<std::uint32_t>(seed.tensor->at(row * 2)), static_cast<std::uint32_t>(seed.tensor->at(row * 2 + 1)));
      if (std::string text = wrong_token(row_of(x, row), params_of(params, row), u, static_cast<std::int64_t>(found.at(row)));
          !text.empty())
        return "row " + std::to_string(row) + ": " + text;
    }
    return {};
  };
  logprob.check = [=](const Tensor& found) -> std::string {
    for (std::int64_t row = 0; row < x.count() / x.last(); ++row) {
      const std::vector<double> p = softmax(row_of(x, row));
      const double y = found.at(row);
      const bool known =
          std::ranges::any_of(p, [&](double v) { return v > 0 && std::fabs(std::log(v) - y) <= 0x1p-18 * (4 + std::fabs(y)); });
      if (!known) return "row " + std::to_string(row) + ": " + std::to_string(y) + " is the log-probability of no token";
    }
    return {};
  };
}

}  // namespace quern::conformance
