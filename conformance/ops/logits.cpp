// penalize logit_bias top_p_mask min_p_mask top_k_mask sample.
//
// penalize, logit_bias: logit_changes.hpp has their bounds. The masks keep a logit as it is or write -inf: exact. Which logits top-p and
// min-p keep, and which token is drawn, follows from sums of probabilities that no backend computes to the last bit: an element whose sum
// lies within (4 sqrt(n) + 32) u of the edge, the bound of a softmax, four times over, is not judged (ExpectedOutput::index leaves it
// out). logprob is bounded as a logsumexp.
#include "ops/hard_values.hpp"
#include "ops/logit_changes.hpp"
#include "ops/make_case.hpp"
#include "ops/random_uniform_reference.hpp"
#include "ops/shaped_cases.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
enum Param { temperature = 0, top_k = 1, top_p = 2, min_p = 3, repeat = 4, presence = 5, frequency = 6, window = 7, param_count = 8 };

void penalize_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &history = call.inputs[1], &length = call.inputs[2], &params = call.inputs[3];
  const std::int64_t n = x.dim_from_end(0), capacity = history.dim_from_end(0);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (std::int64_t row = 0; row * n < x.count(); ++row) {
    const auto p = [&](Param which) { return params.at(row * param_count + which); };
    const auto end = static_cast<std::int64_t>(length.at(row));
    std::vector<int> count(static_cast<std::size_t>(n), 0);
    for (std::int64_t i = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(p(window))); i < end; ++i) {
      const auto token = static_cast<std::int64_t>(history.at(row * capacity + i));
      if (token >= 0 && token < n) ++count[static_cast<std::size_t>(token)];
    }
    for (std::int64_t token = 0; token < n; ++token) {
      const double v = x.at(row * n + token), c = count[static_cast<std::size_t>(token)];
      if (c == 0) {
        y.add(v, 0.0);
        continue;
      }
      const Logit r = penalized(v, c, p(repeat), p(presence), p(frequency));
      y.add(r.value, r.bound);
    }
  }
}

void bias_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &token = call.inputs[1], &bias = call.inputs[2];
  const std::int64_t n = x.dim_from_end(0), entries = token.dim_from_end(0);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.value = x.values();
  y.bound.assign(y.value.size(), 0.0);
  std::map<std::size_t, BiasedLogit> biased;
  for (std::int64_t i = 0; i < token.count(); ++i) {
    const auto id = static_cast<std::int64_t>(token.at(i));
    if (id < 0 || id >= n) continue;
    const auto place = static_cast<std::size_t>(i / entries * n + id);
    biased[place].add(y.value[place], bias.at(i));
  }
  for (const auto& [place, logit] : biased) y.value[place] = logit.sum().value, y.bound[place] = logit.sum().bound;
}

/// A row of logits from best to worst, with its probabilities. NaN and -inf are not in it.
struct Ranked {
  std::vector<double> logit;  // of every token
  std::vector<std::int64_t> token;
  std::vector<double> weight;  // exp(x - best), of token[i]

  Ranked(const Tensor& x, std::int64_t first, std::int64_t n) : logit(static_cast<std::size_t>(n)) {
    x.read(first, n, logit.data());
    for (std::int64_t i = 0; i < n; ++i)
      if (of(i) > -infinity) token.push_back(i);
    std::sort(token.begin(), token.end(), [&](std::int64_t a, std::int64_t b) { return of(a) != of(b) ? of(a) > of(b) : a < b; });
    for (const std::int64_t t : token) weight.push_back(std::exp(of(t) - of(token[0])));
  }
  double of(std::int64_t t) const { return logit[static_cast<std::size_t>(t)]; }
  std::size_t size() const { return token.size(); }
};

double edge(std::size_t n) { return 4.0 * (4.0 * std::sqrt(static_cast<double>(n)) + 32.0) * u32; }

/// How many of the best stay, and between which numbers that is uncertain: [sure, kept] .. tokens before `sure` stay, those from `most`
/// on go.
struct Kept {
  std::size_t sure, most;
  bool exact() const { return sure == most; }
};

Kept keep_top_p(const Ranked& r, std::size_t among, double p) {
  if (!(p < 1.0)) return {among, among};
  double total = 0, sum = 0;
  for (std::size_t i = 0; i < among; ++i) total += r.weight[i];
  Kept kept{among, among};
  const double slack = edge(r.size());
  bool sure = false;
  for (std::size_t i = 0; i < among; ++i) {
    sum += r.weight[i] / total;
    if (!sure && sum >= p - slack) kept.sure = i + 1, sure = true;
    if (sum >= p + slack) {
      kept.most = i + 1;
      break;
    }
  }
  return kept;
}

Kept keep_min_p(const Ranked& r, std::size_t among, double p) {
  if (!(p > 0.0)) return {among, among};
  const double slack = 32.0 * u32 * p;  // exp alone, at a probability of p
  Kept kept{1, 1};
  while (kept.sure < among && r.weight[kept.sure] >= p + slack * (1 - std::log(std::min(p, 1.0)))) ++kept.sure;
  kept.most = kept.sure;
  while (kept.most < among && r.weight[kept.most] >= p - slack * (1 - std::log(std::min(p, 1.0)))) ++kept.most;
  return kept;
}

void mask_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &setting = call.inputs[1];
  const std::int64_t n = x.dim_from_end(0);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::value;
  y.zero_sign = true;
  for (std::int64_t row = 0; row * n < x.count(); ++row) {
    const double s = setting.at(row);
    const bool all = call.what.op == QUERN_OP_TOP_K_MASK ? s <= 0 : call.what.op == QUERN_OP_TOP_P_MASK ? s >= 1 : s <= 0;
    const Ranked ranked(x, row * n, n);
    Kept kept{0, 0};
    if (!all && ranked.size() > 0) {
      if (call.what.op == QUERN_OP_TOP_K_MASK) kept.sure = kept.most = std::min(ranked.size(), static_cast<std::size_t>(s));
      else kept = call.what.op == QUERN_OP_TOP_P_MASK ? keep_top_p(ranked, ranked.size(), s) : keep_min_p(ranked, ranked.size(), s);
    }
    std::vector<double> wanted(static_cast<std::size_t>(n), -infinity);
    std::vector<bool> judged(static_cast<std::size_t>(n), true);
    for (std::int64_t i = 0; all && i < n; ++i) wanted[static_cast<std::size_t>(i)] = ranked.of(i);
    for (std::size_t i = 0; i < kept.most; ++i) {
      wanted[static_cast<std::size_t>(ranked.token[i])] = ranked.of(ranked.token[i]);
      judged[static_cast<std::size_t>(ranked.token[i])] = i < kept.sure;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (!judged[static_cast<std::size_t>(i)]) continue;
      y.index.push_back(row * n + i);
      y.add(wanted[static_cast<std::size_t>(i)], 0);
    }
  }
}

/// The token of one draw; nothing where an edge is too near.
std::optional<std::int64_t> draw(const Ranked& ranked, const std::vector<double>& p, double u) {
  if (!(p[temperature] > 0)) return ranked.token[0];
  std::size_t among = ranked.size();
  if (p[top_k] >= 1) among = std::min(among, static_cast<std::size_t>(p[top_k]));
  const Kept by_top_p = keep_top_p(ranked, among, p[top_p]);
  if (!by_top_p.exact()) return std::nullopt;
  among = by_top_p.sure;
  const Kept by_min_p = keep_min_p(ranked, among, p[min_p]);
  if (!by_min_p.exact()) return std::nullopt;
  among = by_min_p.sure;
  std::vector<double> weight;
  double total = 0, sum = 0;
  for (std::size_t i = 0; i < among; ++i)
    weight.push_back(std::exp((ranked.of(ranked.token[i]) - ranked.of(ranked.token[0])) / p[temperature]));
  for (const double w : weight) total += w;
  for (std::size_t i = 0; i < among; ++i) {
    sum += weight[i] / total;
    if (std::fabs(sum - u) < edge(among) && i + 1 < among) return std::nullopt;
    if (sum > u || i + 1 == among) return ranked.token[i];
  }
  return std::nullopt;
}

void sample_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &params = call.inputs[1], &seed = call.inputs[2], &step = call.inputs[3];
  const std::int64_t n = x.dim_from_end(0);
  ExpectedOutput &token = expected.outputs[0], &logprob = expected.outputs[1];
  token.rule = Rule::value;
  logprob.rule = Rule::bounded;
  for (std::int64_t row = 0; row * n < x.count(); ++row) {
    std::vector<double> p(param_count);
    params.read(row * param_count, param_count, p.data());
    const auto words = philox4x32_10({static_cast<std::uint32_t>(static_cast<std::int32_t>(step.at(row))), 0, 0, 0},
                                     {static_cast<std::uint32_t>(seed.at(2 * row)), static_cast<std::uint32_t>(seed.at(2 * row + 1))});
    const Ranked ranked(x, row * n, n);
    const std::optional<std::int64_t> chosen = draw(ranked, p, unit_interval(words[0]));
    if (!chosen) continue;
    token.index.push_back(row);
    token.add(static_cast<double>(*chosen), 0);
    double sum = 0, far = 0;
    for (const double w : ranked.weight) {
      sum += w;
      if (w > 0) far -= w * std::log(w);
    }
    const double best = ranked.of(ranked.token[0]), r = ranked.of(*chosen) - best - std::log(sum);
    logprob.index.push_back(row);
    logprob.add(r, (4.0 * std::sqrt(static_cast<double>(n)) + 32.0 + 2.0 * far / sum) * u32 +
                       2.0 * u32 * (std::fabs(best) + std::fabs(r) + std::log(sum)));
  }
}

constexpr OpUnderTest penalize_op{QUERN_OP_PENALIZE, "sampling", level_inference, penalize_reference};
constexpr OpUnderTest bias_op{QUERN_OP_LOGIT_BIAS, "sampling", level_inference, bias_reference};
constexpr OpUnderTest sample_op{QUERN_OP_SAMPLE, "sampling", level_inference, sample_reference};

/// Logits of a model: most of them small, a few large, spread by 3.
ValueSpec logits(const Dims& dims, const Layout& layout = {}) {
  return filled(input(QUERN_F32, dims, DataKind::uniform, layout), "logits", [](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 3.0 * random.gaussian(static_cast<std::uint64_t>(i)));
  });
}
/// Few different numbers, so that ties cross every edge; NaN and -inf strewn in; the last row has one token alone.
ValueSpec tied_logits(const Dims& dims) {
  return filled(input(QUERN_F32, dims), "tied", [](const Tensor& t, const CounterRandom& random) {
    const std::int64_t n = t.dim_from_end(0);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      double v = static_cast<double>(random.below(at, 6)) - 2.0;
      if (i % n % 11 == 7) v = -infinity;
      if (i % n % 11 == 4) v = nan_value;
      if (i / n == t.dim_from_end(1) - 1) v = i % n == n / 2 ? -7.0 : -infinity;
      t.set(i, v);
    }
  });
}
/// The numbers of `list`, again and again.
ValueSpec numbers(quern_dtype dtype, Dims dims, std::string name, std::vector<double> list) {
  return filled(input(dtype, std::move(dims)), std::move(name), [list](const Tensor& t, const CounterRandom&) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, list[static_cast<std::size_t>(i) % list.size()]);
  });
}
ValueSpec integers_below(quern_dtype dtype, Dims dims, std::int64_t end, std::string name, double stray = 0) {
  return filled(input(dtype, std::move(dims)), std::move(name), [end, stray](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      t.set(i, stray != 0 && (i == 0 || random.stream(3).below(at, 5) == 0)
                   ? stray
                   : static_cast<double>(random.below(at, static_cast<std::uint64_t>(end))));
    }
  });
}

ValueSpec penalties(std::int64_t rows, double of_window) {
  return filled(input(QUERN_F32, {rows, param_count}), "window" + std::to_string(static_cast<int>(of_window)),
                [of_window](const Tensor& t, const CounterRandom& random) {
                  for (std::int64_t row = 0; row * param_count < t.count(); ++row) {
                    const auto at = static_cast<std::uint64_t>(row);
                    const double values[param_count] = {1,
                                                        0,
                                                        1,
                                                        0,
                                                        row % 3 == 0 ? 1.0 : 1.0 + random.uniform(2 * at),
                                                        row % 2 == 0 ? 0.0 : random.uniform(2 * at + 1),
                                                        row % 4 < 2 ? 0.25 : -0.5,
                                                        of_window};
                    for (int i = 0; i < param_count; ++i) t.set(row * param_count + i, values[i]);
                  }
                });
}

void generate_penalize(CaseSink& sink) {
  for (const std::int64_t n : {1, 33, 257, 4099, 49152})
    for (const std::int64_t capacity : {1, 64, 513})
      for (const double of_window : {0.0, 1.0, 64.0, 1000.0})
        for (const double stray : {0.0, -1.0, static_cast<double>(n)}) {
          const std::int64_t rows = 7;
          const ValueSpec history = integers_below(QUERN_I32, {rows, capacity}, std::min<std::int64_t>(n, 40),
                                                   "tokens" + std::to_string(static_cast<int>(stray)), stray);
          const ValueSpec length =
              numbers(QUERN_I32, {rows}, "lengths",
                      {static_cast<double>(capacity), 0, static_cast<double>(capacity / 2), 1, static_cast<double>(capacity)});
          const bool quick = n < 4099 && capacity == 64 && (stray == 0 || of_window == 64);
          const Profile profile = quick ? Profile::quick : Profile::full;
          Case c = make_case(penalize_op, profile,
                             {stray == 0 ? input(QUERN_F32, {rows, n}, DataKind::specials) : logits({rows, n}), history, length,
                              penalties(rows, of_window)},
                             {output(QUERN_F32, {rows, n})});
          if (stray > 0 && of_window > 0) c.faults = QUERN_FAULT_INDEX_RANGE;
          if (of_window == 1 && stray > 0) continue;  // whether the one token is the stray one is chance
          sink.add(std::move(c));
        }
  sink.add(make_case(penalize_op, Profile::quick,
                     {logits({7, 65}, rows_apart(3)), integers_below(QUERN_I32, {7, 33}, 65, "tokens"),
                      numbers(QUERN_I32, {7}, "lengths", {33, 5, 0}), penalties(7, 20)},
                     {output(QUERN_F32, {7, 65}, rows_apart(1))}));
}

void generate_bias(CaseSink& sink) {
  for (const std::int64_t n : {1, 33, 257, 49152})
    for (const std::int64_t entries : {1, 7, 300})
      for (const double stray : {0.0, -1.0, -2.0, static_cast<double>(n), 2147483647.0}) {
        Case c = make_case(bias_op, n < 300 ? Profile::quick : Profile::full,
                           {logits({5, n}),
                            integers_below(QUERN_I32, {5, entries}, n, "tokens" + std::to_string(static_cast<std::int64_t>(stray)), stray),
                            input(QUERN_F32, {5, entries}, DataKind::heavy)},
                           {output(QUERN_F32, {5, n})});
        if (stray != 0 && stray != -1) c.faults = QUERN_FAULT_INDEX_RANGE;
        sink.add(std::move(c));
      }
  // Tokens that differ: -inf bans, infinity forces.
  sink.add(make_case(bias_op, Profile::quick,
                     {logits({3, 65}, rows_apart(3)), numbers(QUERN_I32, {3, 4}, "apart", {0, 64, 33, -1}),
                      numbers(QUERN_F32, {3, 4}, "infinities", {-infinity, infinity, 100, nan_value})},
                     {output(QUERN_F32, {3, 65}, rows_apart(1))}));
  sink.add(make_case(bias_op, Profile::quick, {logits({3, 65}), input(QUERN_I32, {3, 0}), input(QUERN_F32, {3, 0})},
                     {output(QUERN_F32, {3, 65})}));
}

void generate_masks(CaseSink& sink) {
  for (const std::int64_t n : {1, 7, 33, 257, 1025, 16384, 49152, 151936}) {
    const std::int64_t rows = n > 1025 ? 3 : 9;
    for (const std::uint32_t op : {QUERN_OP_TOP_K_MASK, QUERN_OP_TOP_P_MASK, QUERN_OP_MIN_P_MASK}) {
      const OpUnderTest what{op, "sampling", level_inference, mask_reference};
      const auto some = static_cast<double>(n);
      struct List {
        const char* name;
        std::vector<double> of_k, of_top_p, of_min_p;
      };
      const List lists[] = {{"usual", {40, 1, 5}, {0.9, 0.5, 0.99}, {0.05, 0.1, 0.5}},
                            {"edges", {0, -3, some, 2, 2147483647}, {1, 0, 1.5, 1e-6, 0.75}, {0, 1, 1.5, -1, 1e-6}},
                            {"odd", {7, 64, 65, 63, 256}, {0.33, 0.66, 0.05, 0.999}, {0.01, 0.9, 0.25, 0.001}}};
      for (const List& list : lists) {
        const bool k = op == QUERN_OP_TOP_K_MASK;
        const ValueSpec setting = numbers(k ? QUERN_I32 : QUERN_F32, {rows}, list.name,
                                          k                           ? list.of_k
                                          : op == QUERN_OP_TOP_P_MASK ? list.of_top_p
                                                                      : list.of_min_p);
        const ValueSpec y = output(QUERN_F32, {rows, n});
        const Profile profile = n <= 1025 || (n == 151936 && list.name == std::string("usual")) ? Profile::quick : Profile::full;
        sink.add(make_case(what, profile, {logits({rows, n}), setting}, {y}));
        sink.add(make_case(what, n <= 1025 ? Profile::quick : Profile::full, {tied_logits({rows, n}), setting}, {y}));
        sink.add(make_case(what, n == 257 ? Profile::quick : Profile::full, {logits({rows, n}, rows_apart(3)), setting},
                           {output(QUERN_F32, {rows, n}, rows_apart(1))}));
      }
    }
  }
}

/// One set of params for each row: the filters alone, together, and none.
ValueSpec settings_of(std::int64_t rows, std::string name, double of_temperature) {
  return filled(input(QUERN_F32, {rows, param_count}), std::move(name), [of_temperature](const Tensor& t, const CounterRandom&) {
    static constexpr double filters[][3] = {{0, 1, 0}, {40, 1, 0}, {0, 0.9, 0},   {0, 1, 0.05},   {40, 0.95, 0.05},
                                            {1, 1, 0}, {0, 0, 0},  {5, 0.5, 0.1}, {1000000, 1, 0}};
    for (std::int64_t row = 0; row * param_count < t.count(); ++row) {
      const double* f = filters[static_cast<std::size_t>(row) % std::size(filters)];
      const double values[param_count] = {of_temperature, f[0], f[1], f[2], 1.5, 0.5, 0.5, 64};  // the penalties are another op's
      for (int i = 0; i < param_count; ++i) t.set(row * param_count + i, values[i]);
    }
  });
}
ValueSpec seeds(Dims dims) {
  return filled(input(QUERN_U32, std::move(dims)), "words", [](const Tensor& t, const CounterRandom& random) {
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, static_cast<double>(static_cast<std::uint32_t>(random.bits(static_cast<std::uint64_t>(i)))));
  });
}

Case make_sample(Profile profile, ValueSpec x, const std::string& name, double of_temperature, double step) {
  const std::int64_t rows = x.dims[0];
  const Dims one{rows};
  return make_case(sample_op, profile,
                   {std::move(x), settings_of(rows, name, of_temperature), seeds({rows, 2}),
                    numbers(QUERN_I32, one, "step" + std::to_string(static_cast<int>(step)), {step, step + 1, step})},
                   {output(QUERN_I32, one), output(QUERN_F32, one)});
}

void generate_sample(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec x, const std::string& name, double of_temperature, double step) {
    sink.add(make_sample(profile, std::move(x), name, of_temperature, step));
  };
  struct Heat {
    const char* name;
    double value;
  };
  for (const std::int64_t n : {1, 2, 33, 257, 1025, 4099, 16384, 49152, 151936})
    for (const Heat& heat : {Heat{"greedy", 0}, Heat{"cool", 0.25}, Heat{"plain", 1}, Heat{"hot", 2}, Heat{"cold", 0.0009765625}})
      for (const double step : {0.0, 7.0, 2147483646.0}) {
        const std::int64_t rows = n > 4099 ? 9 : 36;
        const bool quick = n <= 1025 ? step != 2147483646.0 : n == 151936 && step == 7 && heat.value == 1;
        add(quick ? Profile::quick : Profile::full, logits({rows, n}), heat.name, heat.value, step);
        if (n > 1 && step == 7) add(n <= 1025 ? Profile::quick : Profile::full, tied_logits({rows, n}), heat.name, heat.value, step);
      }
  add(Profile::quick, logits({9, 65}, rows_apart(3)), "plain", 1, -5);
  add(Profile::quick, one_far(input(QUERN_F32, {67, 67}), "one_far", 0), "plain", 1, 3);
  add(Profile::quick, filled(input(QUERN_F32, {10, 257}), "negative_rows", fill_negative_rows), "plain", 1, 3);
}

void generate(CaseSink& sink) {
  generate_penalize(sink);
  generate_bias(sink);
  generate_masks(sink);
  generate_sample(sink);
}

}  // namespace

Case sample_case(Profile profile, std::int64_t rows, std::int64_t vocab) {
  return make_sample(profile, logits({rows, vocab}), "hot", 2, 3);
}

extern const Family logits_family;
const Family logits_family = {"logits", generate};

}  // namespace quern::conformance
