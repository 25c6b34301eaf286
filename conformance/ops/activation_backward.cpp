// silu_backward gelu_backward relu_backward relu_sqr_backward sigmoid_backward tanh_backward: dx = dy * f'(x).
//
// Bound: |dy| times that of the slope (activation_reference.cpp), and the product's rounding. relu_backward copies dy or writes 0,
// whatever dy is, NaN too; an x that is NaN is not above 0. relu_sqr_backward is two products: exact in f32 but for the second, 2 being a
// power of 2; max(x, 0) dy may be done first and be subnormal, which the doubling doubles.
#include "ops/activation_reference.hpp"
#include "ops/make_case.hpp"

namespace quern::conformance {
namespace {

Activation kind_of(const Case& c) {
  switch (c.op) {
    case QUERN_OP_SILU_BACKWARD: return Activation::silu;
    case QUERN_OP_RELU_SQR_BACKWARD: return Activation::relu_sqr;
    case QUERN_OP_SIGMOID_BACKWARD: return Activation::sigmoid;
    case QUERN_OP_TANH_BACKWARD: return Activation::tanh;
    default: break;
  }
  const double kind = c.attribute(QUERN_KEY_KIND, 0);
  return kind == 0 ? Activation::gelu_erf : kind == 1 ? Activation::gelu_tanh : Activation::gelu_quick;
}

void relu_reference(const ReferenceCall& call, Expected& expected) {
  const std::vector<double> x = call.inputs[0].values(), dy = call.inputs[1].values();
  expected.outputs[0].rule = Rule::value;
  for (std::size_t i = 0; i < x.size(); ++i) expected.outputs[0].add(x[i] > 0 ? dy[i] : 0.0, 0);
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Activation kind = kind_of(call.what);
  const std::vector<double> x = call.inputs[0].values(), dy = call.inputs[1].values();
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& dx = expected.outputs[0];
  dx.rule = Rule::bounded;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const CurvePoint slope = activation_slope(kind, x[i]);
    const double r = dy[i] * slope.value;
    dx.add(r, std::fabs(dy[i]) * slope.bound + 2.0 * half_ulp_f32(r) + narrow_store(to, r));
  }
}

void fill_ramp(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, static_cast<double>(i % 801) / 4.0 - 100.0);
}

void generate_op(CaseSink& sink, std::uint32_t op, const std::vector<Attribute>& attributes) {
  const bool relu = op == QUERN_OP_RELU_BACKWARD;
  const OpUnderTest what{op, "activation", level_training, relu ? relu_reference : reference};
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec dy, ValueSpec dx) {
    sink.add(make_case(what, profile, {std::move(x), std::move(dy)}, {std::move(dx)}, attributes));
  };
  for (const quern_dtype dtype : float_dtypes) {
    add(Profile::quick, filled(input(dtype, {2, 801}), "ramp", fill_ramp), input(dtype, {2, 801}), output(dtype, {2, 801}));
    if (relu) add(Profile::quick, input(dtype, {5, 31}), input(dtype, {5, 31}, DataKind::specials), output(dtype, {5, 31}));
    for (const Dims& dims : {Dims{1}, Dims{33}, Dims{5, 31}, Dims{3, 4, 65}, Dims{17, 1536}, Dims{65, 1041}})
      for (const DataKind data : {DataKind::specials, DataKind::heavy, DataKind::exponents}) {
        // dy is finite where x is special: what infinity times a slope of nearly 0 is depends on the last digit of the slope.
        const DataKind gradient = data == DataKind::exponents ? DataKind::exponents : DataKind::gaussian;
        const bool small = element_count(dims) < 1000;
        const ValueSpec x = input(dtype, dims, data), dy = input(dtype, dims, gradient);
        add(small ? Profile::quick : Profile::full, x, dy, output(dtype, dims));
        add(small && data == DataKind::specials ? Profile::quick : Profile::full, x, dy, in_place(x, 0));
        add(small && data == DataKind::heavy ? Profile::quick : Profile::full, x, dy, in_place(dy, 1));
        if (dims.size() < 2 || data != DataKind::heavy) continue;
        add(small ? Profile::quick : Profile::full, input(dtype, dims, data, rows_apart(3)), dy, output(dtype, dims));
        add(Profile::full, x, input(dtype, dims, gradient, rows_apart(5)), output(dtype, dims, rows_apart(1)));
        add(Profile::full, x, input(dtype, dims, gradient, shifted()), output(dtype, dims, shifted()));
      }
    add(Profile::quick, input(dtype, {3, 4, 65}, DataKind::heavy, ordered({1, 0, 2})), input(dtype, {3, 4, 65}), output(dtype, {3, 4, 65}));
    for (const quern_dtype other : float_dtypes)
      if (other != dtype) {
        add(Profile::quick, input(dtype, {5, 33}, DataKind::heavy), input(other, {5, 33}), output(dtype, {5, 33}));
        add(Profile::full, input(dtype, {5, 33}, DataKind::heavy), input(dtype, {5, 33}), output(other, {5, 33}));
      }
  }
  add(Profile::quick, input(QUERN_F32, {0, 7}), input(QUERN_F32, {0, 7}), output(QUERN_F32, {0, 7}));
}

void generate(CaseSink& sink) {
  for (const double kind : {0.0, 1.0, 2.0}) generate_op(sink, QUERN_OP_GELU_BACKWARD, unless_default({{{QUERN_KEY_KIND, kind}, 0.0}}));
  for (const std::uint32_t op :
       {QUERN_OP_SILU_BACKWARD, QUERN_OP_RELU_BACKWARD, QUERN_OP_RELU_SQR_BACKWARD, QUERN_OP_SIGMOID_BACKWARD, QUERN_OP_TANH_BACKWARD})
    generate_op(sink, op, {});
}

}  // namespace

extern const Family activation_backward_family;
const Family activation_backward_family = {"activation_backward", generate};

}  // namespace quern::conformance
