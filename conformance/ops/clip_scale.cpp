// clip_scale: min(1, max_norm / (norm / loss_scale)) / loss_scale. Bound: three divisions of 2.5 ulp. A norm of 0 clips nothing, NaN stays.
#include "ops/given.hpp"

#include <limits>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const double norm = call.inputs[0].at(0), loss_scale = call.inputs.size() > 1 && !call.inputs[1].absent() ? call.inputs[1].at(0) : 1.0;
  const double clipped = call.attribute(QUERN_KEY_MAX_NORM, 0) / (norm / loss_scale);
  const double r = (clipped > 1 ? 1.0 : clipped) / loss_scale;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.add(r, std::isfinite(r) ? 7.5 * ulp_f32(r) : 0.0);
}

void generate(CaseSink& sink) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  struct Norm {
    const char* name;
    double value;
  };
  for (const Norm& norm : {Norm{"zero", 0},
                           {"tiny", 1e-30},
                           {"below", 0.3},
                           {"one", 1},
                           {"above", 3.7},
                           {"large", 12345.678},
                           {"1e30", 1e30},
                           {"inf", infinity},
                           {"nan", std::numeric_limits<double>::quiet_NaN()}})
    for (const double max_norm : {0.5, 1.0, 64.0})
      for (const double loss_scale : {0.0, 1.0, 1024.0, 65536.0, 0.125}) {  // 0: the input is absent
        Case c;
        c.group = "optimiser";
        c.op = QUERN_OP_CLIP_SCALE;
        c.profile = Profile::quick;
        c.level = level_training;
        c.inputs = {number(QUERN_F32, norm.value, norm.name)};
        if (loss_scale != 0)
          c.inputs.push_back(number(QUERN_F32, loss_scale,
                                    loss_scale < 1 ? "scale_eighth" : "scale" + std::to_string(static_cast<int>(loss_scale))));
        c.outputs = {output(QUERN_F32, {1})};
        c.attributes = {{QUERN_KEY_MAX_NORM, max_norm}};
        c.reference = reference;
        sink.add(std::move(c));
      }
}

}  // namespace

extern const Family clip_scale_family;
const Family clip_scale_family = {"clip_scale", generate};

}  // namespace quern::conformance
