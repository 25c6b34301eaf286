// moe_router_backward: gradient for the logits, through the scores s of the chosen experts. With g = scale / (renormalise ? sum of the
// chosen : 1) and m = renormalise ? sum dw s / sum : 0, ds = g (dw - m) for the chosen; dlogits = s (ds - sum s ds), or s (1 - s) ds for
// the sigmoid.
//
// Bound: every factor is off by at most e = 4 times the largest relative error of a score, and the sums by (used + n)-term roundings, all
// relative to the sizes that are added: (e + (32 + 2 sqrt(n)) u) s (|ds| + sum s |ds|), |ds| taken as |g| (|dw| + sum |dw| s / sum).
#include "ops/given.hpp"
#include "ops/moe_scores.hpp"
#include "quern/quern_plan.h"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &logits = call.inputs[0], &id = call.inputs[2], &dweight = call.inputs[3];
  const std::int64_t experts = logits.dims()[1], used = id.dims()[1];
  const auto n = static_cast<std::size_t>(experts);
  const bool sigmoid = call.attribute(QUERN_KEY_KIND, 0) == 1, renormalise = call.attribute(QUERN_KEY_RENORMALISE, 1) != 0;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  std::vector<double> x(n);
  for (std::int64_t t = 0; t < logits.dims()[0]; ++t) {
    logits.read(t * experts, experts, x.data());
    const MoeScores s = moe_scores(x, sigmoid);
    double sum = 0, inner = 0, inner_size = 0;
    const auto each = [&](const auto& f) {
      for (std::int64_t u = 0; u < used; ++u)
        if (const auto e = static_cast<std::int64_t>(id.at(t * used + u)); e >= 0 && e < experts)
          f(static_cast<std::size_t>(e), dweight.at(t * used + u));
    };
    each([&](std::size_t e, double dw) { sum += s.score[e], inner += dw * s.score[e], inner_size += std::fabs(dw) * s.score[e]; });
    const bool divided = renormalise && sum != 0;
    const double g = call.attribute(QUERN_KEY_SCALE, 1) / (divided ? sum : 1);
    std::vector<double> ds(n, 0.0), size(n, 0.0);
    each([&](std::size_t e, double dw) {
      ds[e] += g * (dw - (divided ? inner / sum : 0));
      size[e] += std::fabs(g) * (std::fabs(dw) + (divided ? inner_size / sum : 0));
    });
    double all = 0, all_size = 0;
    if (!sigmoid)
      for (std::size_t e = 0; e < n; ++e) all += s.score[e] * ds[e], all_size += s.score[e] * size[e];
    const double relative = 4 * *std::ranges::max_element(s.error) + (32 + 2 * std::sqrt(static_cast<double>(n))) * u32;
    for (std::size_t e = 0; e < n; ++e) {
      const double r = s.score[e] * (sigmoid ? ds[e] * (1 - s.score[e]) : ds[e] - all);
      y.add(r, relative * s.score[e] * (size[e] + all_size) + 0x1p-126 * (size[e] + all_size));
    }
  }
}

enum class Ids { best, dropped, stray };

Case make(Profile profile, std::int64_t tokens, std::int64_t experts, std::int64_t used, double kind, bool with_bias, double renormalise,
          double scale, Ids ids, DataKind data = DataKind::gaussian, Layout layout = {}) {
  std::vector<std::int64_t> id;
  const CounterRandom random = CounterRandom::of("chosen experts");
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(experts)));
    for (std::int64_t u = 0; u < used; ++u) {
      const bool gone = ids != Ids::best && (t + u) % 3 == 1;
      id.push_back(gone ? (ids == Ids::stray && t % 2 == 0 ? experts + u : -1) : (first + u) % experts);
    }
  }
  const char* name = ids == Ids::best ? "distinct" : ids == Ids::dropped ? "some_dropped" : "out_of_range";
  Case c;
  c.group = "moe";
  c.op = QUERN_OP_MOE_ROUTER_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  c.inputs = {input(QUERN_F32, {tokens, experts}, data, layout), with_bias ? input(QUERN_F32, {experts}) : absent(),
              given(input(QUERN_I32, {tokens, used}), name, id), input(QUERN_F32, {tokens, used}, DataKind::gaussian, layout)};
  c.outputs = {output(QUERN_F32, {tokens, experts}, layout)};
  c.attributes = {{QUERN_KEY_USED, static_cast<double>(used)}};
  if (kind != 0) c.attributes.push_back({QUERN_KEY_KIND, kind});
  if (renormalise != 1) c.attributes.push_back({QUERN_KEY_RENORMALISE, renormalise});
  if (scale != 1) c.attributes.push_back({QUERN_KEY_SCALE, scale});
  c.faults = ids == Ids::stray ? QUERN_FAULT_INDEX_RANGE : 0;
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const std::int64_t experts : {2, 4, 8, 31, 64, 128, 257})
    for (const std::int64_t used : {1, 2, 8}) {
      if (used > experts) continue;
      for (const double kind : {0, 1})
        for (const double renormalise : {1, 0}) {
          const Profile profile = experts == 8 || experts == 64 ? Profile::quick : Profile::full;
          sink.add(make(profile, 6, experts, used, kind, false, renormalise, 1, Ids::best));
          sink.add(make(Profile::full, 65, experts, used, kind, true, renormalise, 2.5, Ids::best));
          sink.add(make(profile, 6, experts, used, kind, true, renormalise, 2.5, Ids::dropped));
          sink.add(make(profile, 7, experts, used, kind, false, renormalise, 1, Ids::stray));
          sink.add(make(Profile::full, 6, experts, used, kind, false, renormalise, 1, Ids::best, DataKind::heavy));
        }
    }
  for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
    sink.add(make(Profile::quick, 6, 8, 2, 0, false, 1, 1, Ids::best, DataKind::gaussian, layout));
}

}  // namespace

extern const Family moe_router_backward_family;
const Family moe_router_backward_family = {"moe_router_backward", generate};

}  // namespace quern::conformance
