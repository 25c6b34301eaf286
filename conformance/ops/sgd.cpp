// sgd: w -= lr (d + weight_decay w), d the gradient times scale or, with the state momentum, momentum = factor momentum + gradient scale.
//
// Bounds: momentum 4 u of the sizes of its terms; w 6 u of the sizes of its own, of which w itself is one only where it decays: else it meets
// the last subtraction alone.
#include "ops/adamw.hpp"

#include <algorithm>

namespace quern::conformance {

void sgd_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &gradient = call.inputs[0], &w_before = call.states[0];
  const double lr = call.inputs[1].at(0);
  const std::size_t operands = call.inputs.size() - (call.what.predicated ? 1 : 0);
  const double scale = operands > 2 && !call.inputs[2].absent() ? call.inputs[2].at(0) : 1.0;
  const double factor = call.attribute(QUERN_KEY_MOMENTUM, 0), decay = call.attribute(QUERN_KEY_WEIGHT_DECAY, 0);
  const bool momentum = call.states.size() > 1 && !call.states[1].absent();
  for (ExpectedOutput& output : expected.outputs) output.rule = Rule::bounded;
  const std::int64_t row = std::max<std::int64_t>(1, gradient.count() / std::max<std::int64_t>(1, gradient.dims()[0]));
  for (std::int64_t i = 0; i < gradient.count(); ++i) {
    const double w = w_before.at(i), before = momentum ? call.states[1].at(i) : 0.0;
    if (!row_live(call, i / row)) {
      expected.outputs[0].add(w, 0);
      if (momentum) expected.outputs[1].add(before, 0);
      continue;
    }
    const double g = gradient.at(i) * scale, kept = factor == 0 ? 0.0 : factor * before;
    const double d = g + kept, size = std::fabs(g) + std::fabs(kept);
    const double r = w - lr * (d + decay * w);
    if (momentum) expected.outputs[1].add(d, 4 * u32 * size + narrow_store(call.what.outputs[1].dtype, d) + 0x1p-126);
    expected.outputs[0].add(r, 6 * u32 * ((decay != 0 ? std::fabs(w) : 0) + std::fabs(lr) * (size + decay * std::fabs(w))) +
                                   narrow_store(call.what.outputs[0].dtype, r) + 0x1p-126);
  }
}

namespace {

struct Settings {
  double momentum = 0, decay = 0, lr = 0.03125, scale = 1;
  bool state = false;
  DataKind data = DataKind::gaussian;
  Layout layout;
};

Case make(Profile profile, quern_dtype gradient, quern_dtype w, Dims dims, const Settings& s) {
  Case c;
  c.group = "optimiser";
  c.op = QUERN_OP_SGD;
  c.profile = profile;
  c.level = level_training;
  c.inputs = {input(gradient, dims, s.data, s.layout), number(QUERN_F32, s.lr, "lr")};
  if (s.scale != 1) c.inputs.push_back(number(QUERN_F32, s.scale, "scale"));
  c.outputs = {state(w, dims, DataKind::gaussian, s.layout)};
  if (s.state) c.outputs.push_back(state(w, dims, s.data, s.layout));
  if (s.momentum != 0) c.attributes.push_back({QUERN_KEY_MOMENTUM, s.momentum});
  if (s.decay != 0) c.attributes.push_back({QUERN_KEY_WEIGHT_DECAY, s.decay});
  c.reference = sgd_reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const quern_dtype gradient : {QUERN_F32, QUERN_BF16})
    for (const quern_dtype w : {QUERN_F32, QUERN_BF16}) {
      Settings s;
      for (const bool with_state : {false, true})
        for (const double momentum : {0.0, 0.875})
          for (const double decay : {0.0, 0.0625})
            for (const double scale : {1.0, 0.3125}) {
              if (momentum != 0 && !with_state) continue;
              s = {momentum, decay, 0.03125, scale, with_state, DataKind::gaussian, {}};
              sink.add(make(Profile::quick, gradient, w, {7, 65}, s));
              for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents}) {
                s.data = data;
                sink.add(make(Profile::full, gradient, w, {9, 33}, s));
              }
            }
      s = {0.875, 0.0625, 0.03125, 1, true, DataKind::gaussian, {}};
      for (const Dims& dims : {Dims{1}, {5}, {513}, {3, 4, 33}, {64, 576}, {1025, 129}})
        sink.add(make(element_count(dims) < 1000 ? Profile::quick : Profile::full, gradient, w, dims, s));
      const Case plain = make(Profile::quick, gradient, w, {5, 33}, s);
      sink.add(with_predicate(plain, {0}, "dead"));
      sink.add(with_predicate(plain, {1}, "live"));
      sink.add(with_predicate(plain, {1, 0, 0, 1, 0}, "rows_live"));
      for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
        s.layout = layout;
        sink.add(make(Profile::quick, gradient, w, {5, 33}, s));
      }
    }
}

}  // namespace

extern const Family sgd_family;
const Family sgd_family = {"sgd", generate};

}  // namespace quern::conformance
