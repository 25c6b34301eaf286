// moe_router: the `used` best experts of each row by score (bias counts for the choice only), ties to the lowest id, and their weights.
//
// Ids are judged bit for bit, so a case's keys are equal or clearly apart: the reference refuses data where f32 could not tell.
// A weight is score / (sum of the chosen, if renormalised) * scale: the score's relative error, that of the sum, and 8 u.
#include "ops/given.hpp"
#include "ops/moe_scores.hpp"
#include "ops/shaped_cases.hpp"

#include <numeric>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// Experts in their order for a row. Without a bias the logits decide: scores rise with them.
std::vector<std::size_t> ranked(const std::vector<double>& x, const MoeScores& scores, const Tensor& bias, std::int64_t used) {
  std::vector<double> key = x;
  double apart = 0;
  if (!bias.absent())
    for (std::size_t e = 0; e < x.size(); ++e) {
      key[e] = scores.score[e] + bias.at(static_cast<std::int64_t>(e));
      apart = 1e-6;
    }
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return key[a] > key[b]; });
  for (std::size_t i = 0; i < static_cast<std::size_t>(used) && i + 1 < order.size(); ++i) {
    const double gap = key[order[i]] - key[order[i + 1]];
    if (gap != 0 && gap < apart) throw std::logic_error("a case of moe_router has two experts that f32 may order either way");
  }
  return order;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& logits = call.inputs[0];
  const Tensor none, &bias = call.inputs.size() > 1 ? call.inputs[1] : none;
  const std::int64_t experts = logits.dims()[1], used = static_cast<std::int64_t>(call.attribute(QUERN_KEY_USED, 0));
  const bool sigmoid = call.attribute(QUERN_KEY_KIND, 0) == 1, renormalise = call.attribute(QUERN_KEY_RENORMALISE, 1) != 0;
  const double scale = call.attribute(QUERN_KEY_SCALE, 1);
  ExpectedOutput &id = expected.outputs[0], &weight = expected.outputs[1];
  id.rule = Rule::bits;
  weight.rule = Rule::bounded;
  Tensor ids(QUERN_I32, call.what.outputs[0].dims);
  std::vector<double> x(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < logits.dims()[0]; ++t) {
    logits.read(t * experts, experts, x.data());
    const MoeScores scores = moe_scores(x, sigmoid);
    const std::vector<std::size_t> order = ranked(x, scores, bias, used);
    double sum = 0, error = 0;
    for (std::int64_t u = 0; u < used; ++u)
      sum += scores.score[order[static_cast<std::size_t>(u)]], error = std::max(error, scores.error[order[static_cast<std::size_t>(u)]]);
    const double divisor = renormalise && sum != 0 ? sum : 1;
    for (std::int64_t u = 0; u < used; ++u) {
      const std::size_t e = order[static_cast<std::size_t>(u)];
      ids.set(t * used + u, static_cast<double>(e));
      const double r = scores.score[e] / divisor * scale;
      weight.add(r, (scores.error[e] + (renormalise ? error : 0) + (8 + static_cast<double>(used)) * u32) * std::fabs(r) +
                        0x1p-126 * std::fabs(scale));
    }
  }
  id.bytes.assign(ids.bytes().begin(), ids.bytes().end());
}

/// Distinct logits, 1/8 apart, shuffled in each row.
void fill_distinct(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t * n < x.count(); ++t) {
    for (std::size_t e = 0; e < row.size(); ++e) row[e] = (static_cast<double>(e) - static_cast<double>(n) / 2) / 8;
    const CounterRandom shuffle = random.stream(static_cast<std::uint64_t>(t));
    for (std::size_t i = row.size(); i > 1; --i) std::swap(row[i - 1], row[shuffle.below(i, i)]);
    for (std::int64_t e = 0; e < n; ++e) x.set(t * n + e, row[static_cast<std::size_t>(e)]);
  }
}
/// Few values, so that most rows have ties; row 1 all equal.
void fill_ties(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set(i, i / n == 1 ? 0.5 : static_cast<double>(random.below(static_cast<std::uint64_t>(i), 4)) - 1.5);
}
/// -inf for most experts; row 1 has nothing else. Large logits of either sign in row 2.
void fill_masked(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  fill_distinct(x, random);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    if (i / n == 1 || (i / n != 2 && i % n % 3 != 0)) x.set(i, -std::numeric_limits<double>::infinity());
    if (i / n == 2) x.set(i, x.at(i) * 256);
  }
}

/// Steps of 1/32: with the few scores of `ties`, two keys are equal or clearly apart, which the reference checks.
void fill_bias(const Tensor& bias, const CounterRandom& random) {
  for (std::int64_t e = 0; e < bias.count(); ++e)
    bias.set(e, static_cast<double>(random.below(static_cast<std::uint64_t>(e), 65)) / 32.0 - 1.0);
}

Case make(Profile profile, std::int64_t tokens, std::int64_t experts, std::int64_t used, double kind, bool with_bias, double renormalise,
          double scale, const char* data, void (*fill)(const Tensor&, const CounterRandom&), Layout layout = {}) {
  Case c;
  c.group = "moe";
  c.op = QUERN_OP_MOE_ROUTER;
  c.profile = profile;
  c.level = level_inference;
  c.inputs = {filled(input(QUERN_F32, {tokens, experts}, DataKind::gaussian, layout), data, fill)};
  if (with_bias) c.inputs.push_back(filled(input(QUERN_F32, {experts}), "grid", fill_bias));
  c.outputs = {output(QUERN_I32, {tokens, used}, layout), output(QUERN_F32, {tokens, used}, layout)};
  c.attributes = {{QUERN_KEY_USED, static_cast<double>(used)}};
  if (kind != 0) c.attributes.push_back({QUERN_KEY_KIND, kind});
  if (renormalise != 1) c.attributes.push_back({QUERN_KEY_RENORMALISE, renormalise});
  if (scale != 1) c.attributes.push_back({QUERN_KEY_SCALE, scale});
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const std::int64_t experts : {1, 3, 4, 8, 31, 64, 128, 257})
    for (const std::int64_t used : {1, 2, 6, 8}) {
      if (used > experts) continue;
      for (const double kind : {0, 1})
        for (const double renormalise : {1, 0}) {
          const Profile profile = experts == 8 || experts == 64 ? Profile::quick : Profile::full;
          sink.add(make(profile, 5, experts, used, kind, false, renormalise, 1, "distinct", fill_distinct));
          sink.add(make(Profile::full, 65, experts, used, kind, false, renormalise, 2.5, "distinct", fill_distinct));
          sink.add(make(profile, 5, experts, used, kind, false, renormalise, 1, "ties", fill_ties));
          sink.add(make(profile, 4, experts, used, kind, false, renormalise, 1, "masked", fill_masked));
          if (experts <= 64) sink.add(make(profile, 5, experts, used, kind, true, renormalise, 2.5, "ties", fill_ties));
          sink.add(make(Profile::full, 1, experts, used, kind, false, renormalise, 1, "distinct", fill_distinct));
        }
    }
  for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
    sink.add(make(Profile::quick, 6, 8, 2, 0, false, 1, 1, "distinct", fill_distinct, layout));
  sink.add(make(Profile::quick, 7, 8, 8, 0, true, 1, 1, "ties", fill_ties));  // all of them: the order alone
  sink.add(make(Profile::full, 0, 8, 2, 0, false, 1, 1, "distinct", fill_distinct));
  sink.add(make(Profile::full, 513, 128, 8, 1, false, 1, 1, "distinct", fill_distinct));
}

}  // namespace

Case moe_router_case(Profile profile, std::int64_t tokens, std::int64_t experts, std::int64_t used, bool sigmoid) {
  return make(profile, tokens, experts, used, sigmoid ? 1 : 0, false, 1, 1, "distinct", fill_distinct);
}

extern const Family moe_router_family;
const Family moe_router_family = {"moe_router", generate};

}  // namespace quern::conformance
