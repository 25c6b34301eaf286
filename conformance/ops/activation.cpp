// gelu relu relu_sqr sigmoid tanh. relu and relu_sqr are one f32 operation: bit for bit. The bounds of the others are derived in
// activation_reference.cpp. (silu has a file of its own.)
#include "ops/activation_reference.hpp"
#include "ops/make_case.hpp"

namespace quern::conformance {
namespace {

Activation kind_of(const Case& c) {
  switch (c.op) {
    case QUERN_OP_RELU: return Activation::relu;
    case QUERN_OP_RELU_SQR: return Activation::relu_sqr;
    case QUERN_OP_SIGMOID: return Activation::sigmoid;
    case QUERN_OP_TANH: return Activation::tanh;
    default: break;
  }
  const double kind = c.attribute(QUERN_KEY_KIND, 0);
  return kind == 0 ? Activation::gelu_erf : kind == 1 ? Activation::gelu_tanh : Activation::gelu_quick;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Activation kind = kind_of(call.what);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = kind == Activation::relu || kind == Activation::relu_sqr ? Rule::value : Rule::bounded;
  for (const double x : call.inputs[0].values()) {
    const CurvePoint p = activation_value(kind, x);
    y.add(p.value, p.bound + narrow_store(to, p.value));
  }
}

/// Every quarter from -100 to 100: where exp leaves its range on either side.
void fill_ramp(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, static_cast<double>(i % 801) / 4.0 - 100.0);
}
/// +-2^-24 .. +-2^3 in steps of a 16th of an octave: around 0, where 1 - t and t itself lose their digits.
void fill_small(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set(i, std::copysign(std::exp2(static_cast<double>(i / 2 % 432) / 16.0 - 24.0), i % 2 == 0 ? 1.0 : -1.0));
}

void generate_op(CaseSink& sink, std::uint32_t op, const std::vector<Attribute>& attributes) {
  const OpUnderTest what{op, "activation", level_inference, reference};
  const auto add = [&](Profile profile, ValueSpec x, ValueSpec y) {
    sink.add(make_case(what, profile, {std::move(x)}, {std::move(y)}, attributes));
  };
  for (const quern_dtype dtype : float_dtypes) {
    add(Profile::quick, filled(input(dtype, {2, 801}), "ramp", fill_ramp), output(dtype, {2, 801}));
    add(Profile::quick, filled(input(dtype, {2, 432}), "small", fill_small), output(dtype, {2, 432}));
    for (const Dims& dims : {Dims{1}, Dims{7}, Dims{33}, Dims{5, 31}, Dims{3, 4, 65}, Dims{17, 1536}, Dims{512, 63}})
      for (const DataKind data : {DataKind::specials, DataKind::heavy, DataKind::exponents, DataKind::gaussian}) {
        const bool small = element_count(dims) < 1000;
        const ValueSpec x = input(dtype, dims, data);
        add(small && data != DataKind::gaussian ? Profile::quick : Profile::full, x, output(dtype, dims));
        add(small && data == DataKind::specials ? Profile::quick : Profile::full, x, in_place(x, 0));
        if (dims.size() < 2 || data != DataKind::exponents) continue;
        add(Profile::quick, input(dtype, dims, data, rows_apart(3)), output(dtype, dims));
        add(small ? Profile::quick : Profile::full, x, output(dtype, dims, rows_apart(1)));
        add(Profile::full, input(dtype, dims, data, shifted()), output(dtype, dims, shifted()));
      }
    add(Profile::quick, input(dtype, {3, 4, 65}, DataKind::gaussian, ordered({1, 0, 2})), output(dtype, {3, 4, 65}));
    add(Profile::quick, input(dtype, {4, 9}, DataKind::gaussian, ordered({1, 0})), output(dtype, {4, 9}));
    for (const quern_dtype to : float_dtypes)
      if (to != dtype) add(Profile::quick, input(dtype, {5, 33}, DataKind::specials), output(to, {5, 33}));
  }
  add(Profile::quick, input(QUERN_F32, {0, 7}), output(QUERN_F32, {0, 7}));
}

void generate(CaseSink& sink) {
  for (const double kind : {0.0, 1.0, 2.0}) generate_op(sink, QUERN_OP_GELU, unless_default({{{QUERN_KEY_KIND, kind}, 0.0}}));
  for (const std::uint32_t op : {QUERN_OP_RELU, QUERN_OP_RELU_SQR, QUERN_OP_SIGMOID, QUERN_OP_TANH}) generate_op(sink, op, {});
}

}  // namespace

extern const Family activation_family;
const Family activation_family = {"activation", generate};

}  // namespace quern::conformance
