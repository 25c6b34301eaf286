// softsign: y = x / (1 + |x|). Bound: an addition, and a division of 2.5 ulp (what Vulkan grants): 4 ulp of r.
#include "ops/make_case.hpp"

#include <cmath>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (const double x : call.inputs[0].values()) {
    const double r = std::isinf(x) ? std::copysign(1.0, x) : x / (1.0 + std::fabs(x));
    y.add(r, 4.0 * ulp_f32(r));
  }
}

void generate(CaseSink& sink) {
  const OpUnderTest what{QUERN_OP_SOFTSIGN, "activation", level_inference, reference};
  for (const quern_dtype dtype : float_dtypes)
    for (const DataKind data : {DataKind::gaussian, DataKind::specials, DataKind::heavy}) {
      const ValueSpec x = input(dtype, {5, 31}, data);
      sink.add(make_case(what, Profile::quick, {x}, {output(dtype, {5, 31})}, {}));
      sink.add(make_case(what, Profile::quick, {x}, {in_place(x, 0)}, {}));
      sink.add(make_case(what, Profile::quick, {input(dtype, {5, 31}, data, rows_apart(3))}, {output(dtype, {5, 31})}, {}));
    }
  sink.add(make_case(what, Profile::quick, {input(QUERN_F32, {0, 7})}, {output(QUERN_F32, {0, 7})}, {}));
}

}  // namespace

extern const Family softsign_family;
const Family softsign_family = {"softsign", generate};

}  // namespace quern::conformance
