// adamw: one decoupled AdamW step on w, m, v and, where w is narrower, master.
//
// With g the gradient times scale: m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2, each within 4 u of the sizes of its
// terms: the rounding of the factor, two products, the sum. w -= lr m^ / (sqrt(v^) + epsilon) + lr wd w within
// 8 u (|w| + lr M^ / (sqrt(v^) + epsilon) + lr wd |w|), M^ the sizes of m's terms over 1 - beta1^t; without |w| where nothing decays, as w
// then meets the last subtraction alone. Where there is a scale, g is rounded: g^2 has 2 u more, w's step 2 u (m has no second product, so
// that its 4 u hold that too). The corrections are exact in f64: computing 1 - beta2^t in f32 at t = 1 would be off by
// 2^-24 / (1 - beta2), 512 u here. A g^2 that is subnormal in f32 may be flushed: 2^-126 in v. All of w, m, v and master are judged: a state
// that is not stored fails.
#include "ops/adamw.hpp"

#include "quern/quern_plan.h"

#include <algorithm>
#include <limits>

namespace quern::conformance {

void adamw_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& gradient = call.inputs[0];
  const double step = call.inputs[1].at(0), lr = call.inputs[2].at(0);
  const std::size_t operands = call.inputs.size() - (call.what.predicated ? 1 : 0);
  const bool scaled = operands > 3 && !call.inputs[3].absent();
  const double scale = scaled ? call.inputs[3].at(0) : 1.0, of_scale = scaled ? 2 * u32 : 0;
  const double beta1 = call.attribute(QUERN_KEY_BETA1, 0.9), beta2 = call.attribute(QUERN_KEY_BETA2, 0.999);
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 1e-8), decay = call.attribute(QUERN_KEY_WEIGHT_DECAY, 0);
  const bool master = call.states.size() > 3 && !call.states[3].absent();
  const Tensor &w_before = call.states[master ? 3 : 0], &m_before = call.states[1], &v_before = call.states[2];
  for (ExpectedOutput& output : expected.outputs) output.rule = Rule::bounded;
  const std::int64_t row =
      gradient.dims().empty() ? 1 : std::max<std::int64_t>(1, gradient.count() / std::max<std::int64_t>(1, gradient.dims()[0]));
  const double correction1 = -std::expm1(step * std::log(beta1)), correction2 = -std::expm1(step * std::log(beta2));
  for (std::int64_t i = 0; i < gradient.count(); ++i) {
    const double w = w_before.at(i), m = m_before.at(i), v = v_before.at(i);
    if (step < 1 || !row_live(call, i / row)) {  // nothing is written
      expected.outputs[0].add(call.states[0].at(i), 0);
      expected.outputs[1].add(m, 0);
      expected.outputs[2].add(v, 0);
      if (master) expected.outputs[3].add(w, 0);
      continue;
    }
    const double g = gradient.at(i) * scale;
    const double m_after = beta1 * m + (1 - beta1) * g, m_size = beta1 * std::fabs(m) + (1 - beta1) * std::fabs(g);
    const double v_after = beta2 * v + (1 - beta2) * g * g;
    const double divisor = std::sqrt(v_after / correction2) + epsilon;
    const double w_after = w - lr * m_after / correction1 / divisor - lr * decay * w;
    const double size = (decay != 0 ? std::fabs(w) : 0) + lr * m_size / correction1 / divisor + lr * decay * std::fabs(w);
    const double flushed = lr * m_size / correction1 / divisor * std::min(1.0, v_after > 0 ? 0x1p-126 / v_after : 1.0);
    expected.outputs[1].add(m_after, 4 * u32 * m_size + 0x1p-126);
    expected.outputs[2].add(v_after, (4 * u32 + of_scale) * v_after + 0x1p-126);
    const double w_bound = (8 * u32 + of_scale) * size + flushed;
    expected.outputs[0].add(w_after, w_bound + (master ? half_ulp_f32(w_after) : 0) + narrow_store(call.what.outputs[0].dtype, w_after));
    if (master) expected.outputs[3].add(w_after, w_bound);
  }
}

namespace {

struct Settings {
  double beta1 = 0.875, beta2 = 0.998046875, epsilon = 0x1p-27, decay = 0;  // f32 has them, 1 - beta too
  double step = 1, lr = 0x1p-10, scale = 1;
  bool defaults = false;  // beta1, beta2 and epsilon of the table of ops
  DataKind gradient = DataKind::gaussian, w = DataKind::gaussian;
  Layout layout;
};

void fill_square(const Tensor& v, const CounterRandom& random) {  // a v is never below 0
  for (std::int64_t i = 0; i < v.count(); ++i) v.set(i, std::exp2(-20 * random.uniform(static_cast<std::uint64_t>(i))));
}
void fill_master(const Tensor& master, const CounterRandom& random) { fill(master, DataKind::gaussian, random); }

Case make(Profile profile, quern_dtype w, Dims dims, const Settings& s, bool master) {
  Case c;
  c.group = "optimiser";
  c.op = QUERN_OP_ADAMW;
  c.profile = profile;
  c.level = level_training;
  c.inputs = {input(QUERN_F32, dims, s.gradient, s.layout),
              number(QUERN_I32, s.step, "step" + std::to_string(static_cast<std::int64_t>(s.step))), number(QUERN_F32, s.lr, "lr")};
  if (s.scale != 1) c.inputs.push_back(number(QUERN_F32, s.scale, "scale"));
  ValueSpec square = filled(state(QUERN_F32, dims, DataKind::positive, s.layout), "square", fill_square);
  ValueSpec mean = state(QUERN_F32, dims, s.gradient, s.layout);
  if (s.step == 1) {  // as they are at first
    mean = given(mean, "zeros", std::vector<double>(static_cast<std::size_t>(element_count(dims)), 0.0));
    square = given(square, "zeros", std::vector<double>(static_cast<std::size_t>(element_count(dims)), 0.0));
  }
  c.outputs = {state(w, dims, s.w, s.layout), mean, square};
  if (master) c.outputs.push_back(filled(state(QUERN_F32, dims, DataKind::gaussian, s.layout), "master", fill_master));
  if (!s.defaults) c.attributes = {{QUERN_KEY_BETA1, s.beta1}, {QUERN_KEY_BETA2, s.beta2}, {QUERN_KEY_EPSILON, s.epsilon}};
  if (s.decay != 0) c.attributes.push_back({QUERN_KEY_WEIGHT_DECAY, s.decay});
  c.faults = s.step < 1 ? QUERN_FAULT_NON_FINITE : 0;
  c.reference = adamw_reference;
  return c;
}

/// Of g: zeros, 1e20, 1e-20, NaN, infinities, then usual ones.
void fill_edges(const Tensor& g, const CounterRandom& random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double table[] = {0.0, -0.0, 1e20, -1e20, 1e-20, -1e-20, std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 0x1p-149};
  for (std::int64_t i = 0; i < g.count(); ++i) g.set(i, i % 3 == 0 ? table[i / 3 % 10] : random.gaussian(static_cast<std::uint64_t>(i)));
}

void generate(CaseSink& sink) {
  struct Weights {
    quern_dtype dtype;
    bool master;
  };
  for (const Weights w : {Weights{QUERN_F32, false}, {QUERN_BF16, false}, {QUERN_BF16, true}, {QUERN_F32, true}}) {
    for (const double step : {1.0, 2.0, 10.0, 1000.0, 1e6, 2147483647.0})
      for (const double decay : {0.0, 0.0625})
        for (const double scale : {1.0, 0.3125}) {
          Settings s;
          s.step = step;
          s.decay = decay;
          s.scale = scale;
          sink.add(make(Profile::quick, w.dtype, {7, 65}, s, w.master));
          s.defaults = true;
          sink.add(make(scale == 1 ? Profile::quick : Profile::full, w.dtype, {7, 65}, s, w.master));
        }
    for (const Dims& dims : {Dims{1}, {5}, {17}, {513}, {3, 4, 33}, {64, 576}, {1025, 129}}) {
      Settings s;
      s.step = 3;
      s.decay = 0.0625;
      sink.add(make(element_count(dims) < 1000 ? Profile::quick : Profile::full, w.dtype, dims, s, w.master));
    }
    for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot}) {
      Settings s;
      s.step = 2;
      s.gradient = data;
      sink.add(make(Profile::quick, w.dtype, {9, 33}, s, w.master));
      s.w = data;
      sink.add(make(Profile::full, w.dtype, {9, 33}, s, w.master));
    }
    Settings s;
    s.step = 5;
    s.decay = 0.0625;
    for (const double step : {1.0, 5.0}) {
      s.step = step;
      Case edges = make(Profile::quick, w.dtype, {3, 40}, s, w.master);
      edges.inputs[0] = filled(edges.inputs[0], "edges", fill_edges);
      sink.add(edges);
    }
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
      s.layout = layout;
      sink.add(make(Profile::quick, w.dtype, {5, 33}, s, w.master));
    }
    s.layout = {};
    for (const double step : {0.0, -1.0}) {
      s.step = step;
      sink.add(make(Profile::quick, w.dtype, {5, 33}, s, w.master));
    }
    s.step = 4;
    const Case plain = make(Profile::quick, w.dtype, {5, 33}, s, w.master);
    sink.add(with_predicate(plain, {0}, "dead"));
    sink.add(with_predicate(plain, {1}, "live"));
    sink.add(with_predicate(plain, {1, 0, 0, 1, 0}, "rows_live"));
    sink.add(make(Profile::full, w.dtype, {0, 4}, s, w.master));
  }
}

}  // namespace

extern const Family adamw_family;
const Family adamw_family = {"adamw", generate};

}  // namespace quern::conformance
