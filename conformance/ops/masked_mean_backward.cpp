// masked_mean_backward: dx = dy / count where mask is not 0, else 0. Bound: a division of 2.5 ulp. A count of 0 divides nothing.
#include "ops/given.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& mask = call.inputs[0];
  const double each = call.inputs[2].at(0) / call.inputs[1].at(0);
  ExpectedOutput& dx = expected.outputs[0];
  dx.rule = Rule::bounded;
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const double r = mask.at(i) != 0 ? each : 0.0;
    dx.add(r, r == 0.0 ? 0.0 : 2.5 * ulp_f32(r));
  }
}

void generate(CaseSink& sink) {
  for (const std::int64_t n : {1, 2, 31, 64, 257, 4096, 70001})
    for (const std::int64_t step : {1, 2, 3, 0})  // every step-th element is live; 0: none
      for (const double dy : {1.0, -0.3125, 3e-20}) {
        std::vector<std::int64_t> mask;
        std::int64_t live = 0;
        for (std::int64_t i = 0; i < n; ++i) mask.push_back(step != 0 && i % step == 0 ? 1 + i % 5 : 0), live += mask.back() != 0;
        Case c;
        c.group = "loss";
        c.op = QUERN_OP_MASKED_MEAN_BACKWARD;
        c.profile = n <= 257 ? Profile::quick : Profile::full;
        c.level = level_training;
        c.inputs = {given(input(QUERN_I32, {n}, DataKind::uniform, n == 64 ? shifted() : Layout{}), "every" + std::to_string(step), mask),
                    number(QUERN_F32, static_cast<double>(live), "count"),
                    number(QUERN_F32, dy,
                           dy == 1.0 ? "one"
                           : dy < 0  ? "negative"
                                     : "small")};
        c.outputs = {output(QUERN_F32, {n}, n == 31 ? shifted() : Layout{})};
        c.reference = reference;
        sink.add(std::move(c));
      }
}

}  // namespace

extern const Family masked_mean_backward_family;
const Family masked_mean_backward_family = {"masked_mean_backward", generate};

}  // namespace quern::conformance
