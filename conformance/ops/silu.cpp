// silu: y = x / (1 + exp(-x)).
//
// Bound: exp within 3 + 2|x| ulp (what Vulkan and OpenCL grant), an addition, a division of 2.5 ulp: (8 + 2|x|) ulp of r. Below -88.7 a
// plain x / (1 + exp(-x)) ends at -0 in f32, where r is smaller than |x| 2^-100.
#include "ops/family.hpp"

#include <limits>

namespace quern::conformance {
namespace {

double silu(double x) { return x == -std::numeric_limits<double>::infinity() ? -0.0 : x / (1.0 + std::exp(-x)); }

void reference(const ReferenceCall& call, Expected& expected) {
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (const double x : call.inputs[0].values()) {
    const double r = silu(x);
    const double size = std::isfinite(x) ? std::min(std::fabs(x), 128.0) : 0.0;  // beyond, exp is 0 or the result is x
    y.add(r, (8.0 + 2.0 * size) * ulp_f32(r) + size * 0x1p-100);
  }
}

/// Every quarter from -100 to 100: where exp leaves its range on either side.
void fill_ramp(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, static_cast<double>(i % 801) / 4.0 - 100.0);
}

void add(CaseSink& sink, Profile profile, ValueSpec x, ValueSpec y) {
  Case c;
  c.group = "activation";
  c.op = QUERN_OP_SILU;
  c.profile = profile;
  c.level = level_inference;
  c.inputs = {std::move(x)};
  c.outputs = {std::move(y)};
  c.reference = reference;
  sink.add(std::move(c));
}

void generate(CaseSink& sink) {
  const Dims shapes[] = {{1}, {7}, {33}, {5, 31}, {3, 4, 65}, {17, 1536}, {512, 63}};
  for (const quern_dtype dtype : float_dtypes) {
    add(sink, Profile::quick, filled(input(dtype, {3, 801}), "ramp", fill_ramp), output(dtype, {3, 801}));
    for (const Dims& dims : shapes)
      for (const DataKind data : {DataKind::gaussian, DataKind::specials, DataKind::heavy, DataKind::exponents}) {
        const ValueSpec x = input(dtype, dims, data);
        add(sink, Profile::quick, x, output(dtype, dims));
        add(sink, Profile::quick, x, in_place(x, 0));
        if (dims.size() < 2) continue;
        add(sink, Profile::quick, input(dtype, dims, data, rows_apart(3)), output(dtype, dims));
        add(sink, Profile::full, x, output(dtype, dims, rows_apart(1)));
        add(sink, Profile::full, input(dtype, dims, data, shifted()), output(dtype, dims, shifted()));
      }
  }
  add(sink, Profile::quick, input(QUERN_F32, {0}), output(QUERN_F32, {0}));
  for (const quern_dtype dtype : float_dtypes)
    add(sink, Profile::full, input(dtype, {513, 11008}, DataKind::gaussian), output(dtype, {513, 11008}));
}

}  // namespace

extern const Family silu_family;
const Family silu_family = {"silu", generate};

}  // namespace quern::conformance
