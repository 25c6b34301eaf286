// glu: y = f(gate) * up, two inputs or the two halves of one; and glu_backward: dgate = dy * up * f'(gate), dup = dy * f(gate).
//
// With a finite limit gate is cut from above, up on both sides, silu is x sigmoid(alpha x), and up + 1 is the factor; a factor that was
// cut has no gradient, one at the limit has. Bounds: those of f and f' (activation_reference.cpp) times the other factors, u for each
// product, and u (|up| + 1) for the sum up + 1. f, f' and the first product may be subnormal: 2^-149 times the other factors.
#include "ops/activation_reference.hpp"
#include "ops/hard_values.hpp"
#include "ops/make_case.hpp"

#include <limits>

namespace quern::conformance {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// What the attributes say.
struct Glu {
  Activation f;
  bool swapped;
  double alpha, limit;

  explicit Glu(const ReferenceCall& call)
      : f(kinds[static_cast<std::size_t>(call.attribute(QUERN_KEY_KIND, 0))]),
        swapped(call.attribute(QUERN_KEY_SWAPPED, 0) != 0),
        alpha(call.attribute(QUERN_KEY_ALPHA, 1)),
        limit(call.attribute(QUERN_KEY_LIMIT, no_limit)) {
    if (limit == no_limit) alpha = 1;
  }
  static constexpr Activation kinds[] = {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh, Activation::relu,
                                         Activation::sigmoid};

  bool limited() const { return limit != no_limit; }
  double gate(double g) const { return g > limit ? limit : g; }
  double up(double u) const { return !limited() ? u : (u > limit ? limit : u < -limit ? -limit : u) + 1.0; }
  double up_error(double u) const { return limited() ? u32 * (std::fabs(up(u)) + 1.0) : 0.0; }
};

/// Where gate and up of element i of y are.
struct Places {
  bool split;
  std::int64_t n;
  bool swapped;
  std::int64_t gate(std::int64_t i) const { return split ? i : i / n * 2 * n + (swapped ? n : 0) + i % n; }
  std::int64_t up(std::int64_t i) const { return split ? i : i / n * 2 * n + (swapped ? 0 : n) + i % n; }
};

void reference(const ReferenceCall& call, Expected& expected) {
  const Glu glu(call);
  const Tensor &gate = call.inputs[0], &up = call.inputs[1].absent() ? gate : call.inputs[1];
  const Dims& dims = call.what.outputs[0].dims;
  const Places at{!call.inputs[1].absent(), dims.back(), glu.swapped};
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    const double u = up.at(at.up(i)), factor = glu.up(u);
    const CurvePoint f = activation_value(glu.f, glu.gate(gate.at(at.gate(i))), glu.alpha);
    const double r = f.value * factor;
    const double subnormal = 0x1p-149 * std::fabs(factor);
    y.add(r, std::fabs(factor) * f.bound + std::fabs(f.value) * glu.up_error(u) + subnormal + half_ulp_f32(r) + narrow_store(to, r));
  }
}

void backward_reference(const ReferenceCall& call, Expected& expected) {
  const Glu glu(call);
  const bool split = !call.inputs[1].absent();
  const Tensor &gate = call.inputs[0], &up = split ? call.inputs[1] : gate, &dy = call.inputs[2];
  const Places at{split, dy.dim_from_end(0), glu.swapped};
  const bool wants_up = !split || (call.what.outputs.size() > 1 && !call.what.outputs[1].absent());
  const quern_dtype to = call.what.outputs[0].dtype;
  for (std::size_t o = 0; o < expected.outputs.size(); ++o) {
    if (call.what.outputs[o].absent()) continue;
    expected.outputs[o].rule = Rule::bounded;
    expected.outputs[o].value.resize(static_cast<std::size_t>(element_count(call.what.outputs[o].dims)));
    expected.outputs[o].bound.resize(expected.outputs[o].value.size());
  }
  const auto put = [&](ExpectedOutput& e, std::int64_t i, double r, double bound) {
    e.value[static_cast<std::size_t>(i)] = r;
    e.bound[static_cast<std::size_t>(i)] = bound + 2.0 * half_ulp_f32(r) + narrow_store(to, r);
  };
  for (std::int64_t i = 0; i < dy.count(); ++i) {
    const double g = gate.at(at.gate(i)), u = up.at(at.up(i)), d = dy.at(i), factor = glu.up(u);
    const CurvePoint f = activation_value(glu.f, glu.gate(g), glu.alpha), slope = activation_slope(glu.f, glu.gate(g), glu.alpha);
    const bool gate_cut = g > glu.limit, up_cut = glu.limited() && std::fabs(u) > glu.limit;
    if (gate_cut) put(expected.outputs[0], at.gate(i), 0.0, 0.0);
    else
      put(expected.outputs[0], at.gate(i), d * factor * slope.value,
          std::fabs(d) * (std::fabs(factor) * slope.bound + std::fabs(slope.value) * glu.up_error(u)) +
              u32 * std::fabs(d * factor * slope.value) + 0x1p-149 * (1.0 + std::fabs(d)) * (1.0 + std::fabs(factor)));
    if (!wants_up) continue;
    ExpectedOutput& dup = expected.outputs[split ? 1 : 0];
    if (up_cut) put(dup, at.up(i), 0.0, 0.0);
    else put(dup, at.up(i), d * f.value, std::fabs(d) * (f.bound + 0x1p-149));
  }
}

/// Values around +-limit of the clamped cases (2.5), many of them exactly there.
void fill_limits(const Tensor& x, const CounterRandom& random) {
  for (std::int64_t i = 0; i < x.count(); ++i) {
    static constexpr double around[] = {2.5, -2.5, 2.515625, -2.515625, 2.484375, -2.484375, 100.0, -100.0};
    const auto n = static_cast<std::uint64_t>(i);
    x.set(i, random.below(n, 2) == 0 ? 3.0 * random.gaussian(n) : around[random.bits(n) >> 61]);
  }
}

std::vector<Attribute> attributes_of(double kind, double swapped, double alpha, double limit) {
  return unless_default({{{QUERN_KEY_KIND, kind}, 0},
                         {{QUERN_KEY_SWAPPED, swapped}, 0},
                         {{QUERN_KEY_ALPHA, alpha}, 1},
                         {{QUERN_KEY_LIMIT, limit}, no_limit}});
}

constexpr OpUnderTest glu_op{QUERN_OP_GLU, "activation", level_inference, reference};
constexpr OpUnderTest backward_op{QUERN_OP_GLU_BACKWARD, "activation", level_training, backward_reference};

Dims halves(Dims dims) {
  dims.back() *= 2;
  return dims;
}

/// Forward and backward of one setting on one shape, split and packed.
void add_both(CaseSink& sink, Profile profile, quern_dtype dtype, const Dims& dims, double kind, double alpha, double limit,
              DataKind data) {
  const bool limited = limit != no_limit;
  const auto value = [&](const Dims& d) { return limited ? filled(input(dtype, d), "limits", fill_limits) : input(dtype, d, data); };
  const ValueSpec factor = limited ? value(dims) : input(dtype, dims), y = output(dtype, dims);  // up is finite where gate is special
  sink.add(make_case(glu_op, profile, {value(dims), factor}, {y}, attributes_of(kind, 0, alpha, limit)));
  sink.add(make_case(backward_op, profile, {value(dims), factor, input(dtype, dims)}, {y, y}, attributes_of(kind, 0, alpha, limit)));
  if (data == DataKind::specials && !limited) return;  // both halves would be
  for (const double swapped : {0.0, 1.0}) {
    sink.add(make_case(glu_op, profile, {value(halves(dims)), absent()}, {y}, attributes_of(kind, swapped, alpha, limit)));
    sink.add(make_case(backward_op, profile, {value(halves(dims)), absent(), input(dtype, dims)}, {output(dtype, halves(dims))},
                       attributes_of(kind, swapped, alpha, limit)));
  }
}

void add_layouts(CaseSink& sink, quern_dtype dtype, double kind) {
  const Dims dims{3, 4, 65};
  const std::vector<Attribute> attributes = attributes_of(kind, 0, 1, no_limit);
  const ValueSpec x = input(dtype, dims, DataKind::heavy), dy = input(dtype, dims), y = output(dtype, dims);
  const Profile profile = Profile::quick;
  sink.add(make_case(glu_op, profile, {x, x}, {in_place(x, 0)}, attributes));
  sink.add(make_case(glu_op, profile, {x, x}, {in_place(x, 1)}, attributes));
  sink.add(make_case(backward_op, profile, {x, x, dy}, {in_place(x, 0), in_place(x, 1)}, attributes));
  sink.add(make_case(backward_op, profile, {x, x, dy}, {y, in_place(dy, 2)}, attributes));
  sink.add(make_case(backward_op, profile, {x, x, dy}, {y}, attributes));  // dup is not wanted
  for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({0, 2, 1})}) {
    sink.add(make_case(glu_op, profile, {input(dtype, dims, DataKind::heavy, layout), x}, {y}, attributes));
    sink.add(make_case(glu_op, profile, {x, input(dtype, dims, DataKind::heavy, layout)}, {output(dtype, dims, rows_apart(1))},
                       attributes));
    sink.add(make_case(backward_op, profile, {input(dtype, dims, DataKind::heavy, layout), x, dy}, {y, output(dtype, dims, rows_apart(1))},
                       attributes));
  }
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const double kind : {0.0, 1.0, 2.0, 3.0, 4.0}) {
      for (const Dims& dims : {Dims{1}, Dims{5, 31}, Dims{7, 1041}, Dims{3, 1536}, Dims{1, 11008}, Dims{129, 63}})
        for (const DataKind data : {DataKind::heavy, DataKind::exponents, DataKind::specials}) {
          const bool quick = element_count(dims) < 200 || (dims.back() == 1041 && data == DataKind::heavy);
          add_both(sink, quick ? Profile::quick : Profile::full, dtype, dims, kind, 1, no_limit, data);
        }
      add_both(sink, Profile::quick, dtype, {5, 257}, kind, 1, 2.5, DataKind::gaussian);
      add_both(sink, Profile::full, dtype, {5, 1041}, kind, 1.703125, 2.5, DataKind::gaussian);
      for (const double swapped : {0.0, 1.0})  // halves of one row: what is not finite stays with its pair
        sink.add(make_case(glu_op, Profile::quick, {filled(input(dtype, {14, 66}), "not_finite_rows", fill_not_finite_rows), absent()},
                           {output(dtype, {14, 33})}, attributes_of(kind, swapped, 1, no_limit)));
      if (dtype != QUERN_F32)  // results beyond f16
        sink.add(make_case(glu_op, Profile::quick, {filled(input(dtype, {10, 66}), "beyond_f16", fill_beyond_f16), absent()},
                           {output(dtype, {10, 33})}, attributes_of(kind, 0, 1, no_limit)));
      if (kind <= 1) add_layouts(sink, dtype, kind);  // silu, which backends have fast kernels for, and one that is not silu
    }
  for (const quern_dtype dtype : float_dtypes) add_both(sink, Profile::quick, dtype, {5, 129}, 0, 1.703125, 2.5, DataKind::gaussian);
  add_both(sink, Profile::quick, QUERN_F32, {0, 8}, 0, 1, no_limit, DataKind::gaussian);
}

}  // namespace

extern const Family glu_family;
const Family glu_family = {"glu", generate};

}  // namespace quern::conformance
