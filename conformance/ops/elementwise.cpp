// add sub mul div scale neg sqr sqrt abs clamp fill cumsum.
//
// What one f32 operation makes is expected bit for bit: the f64 result rounded to f32 (innocuous for + - * / and roots: 53 >= 2 * 24 + 2)
// and then to the dtype of y; a zero of add, sub and mul has the sign that IEEE 754 gives it. Where two operations may be one (fused
// multiply-add), the rounding of the product is allowed, unless its factor is a power of two and nothing is rounded.
// div 2.5 ulp and sqrt 3 ulp (the limits of Vulkan and OpenCL); cumsum is an accumulation.
#include "ops/family.hpp"

#include <limits>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The element of b that meets element i of a, b broadcast to a.
class Broadcast {
 public:
  Broadcast(const Tensor& b, const Tensor& a) : b_(b), a_(a) {}
  std::int64_t operator()(std::int64_t i) const {
    std::int64_t at = 0, step = 1;
    for (std::size_t d = 0; d < a_.dims().size(); ++d) {
      const std::int64_t index = i % a_.dim_from_end(d);
      i /= a_.dim_from_end(d);
      if (b_.dim_from_end(d) != 1) at += index * step;
      step *= b_.dim_from_end(d);
    }
    return at;
  }

 private:
  const Tensor &b_, &a_;
};

/// Of a factor times x in f32: nothing where it is a power of two, but for a subnormal product.
double product_error(double factor, double x) {
  const double product = std::fabs(factor * x);
  return scales_exactly(factor) && (product == 0 || product >= 0x1p-126) ? 0.0 : half_ulp_f32(product);
}

void binary(const ReferenceCall& call, Expected& expected) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1];
  const std::vector<double> x = a.values(), z = b.values();
  const Broadcast place(b, a);
  const double alpha = call.attribute(QUERN_KEY_ALPHA, 1);
  const quern_dtype to = call.what.outputs[0].dtype;
  const bool divides = call.what.op == QUERN_OP_DIV, fuses = alpha != 1;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = divides || fuses ? Rule::bounded : Rule::value;
  y.zero_sign = true;
  y.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double other = z[static_cast<std::size_t>(place(static_cast<std::int64_t>(i)))];
    switch (call.what.op) {
      case QUERN_OP_ADD: {
        const double r = x[i] + alpha * other;
        y.add(r, product_error(alpha, other) + narrow_store(to, r));
        break;
      }
      case QUERN_OP_SUB: y.add(x[i] - other, 0); break;
      case QUERN_OP_MUL: y.add(x[i] * other, 0); break;
      default: y.add(x[i] / other, 2.5 * ulp_f32(x[i] / other)); break;
    }
  }
}

void unary(const ReferenceCall& call, Expected& expected) {
  const double alpha = call.attribute(QUERN_KEY_ALPHA, 1), beta = call.attribute(QUERN_KEY_BETA, 0);
  const double low = call.attribute(QUERN_KEY_MIN, -infinity), high = call.attribute(QUERN_KEY_MAX, infinity);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  const bool fuses = call.what.op == QUERN_OP_SCALE && beta != 0;
  y.rule = fuses || call.what.op == QUERN_OP_SQRT ? Rule::bounded : Rule::value;
  y.zero_sign = call.what.op == QUERN_OP_NEG || call.what.op == QUERN_OP_ABS || (call.what.op == QUERN_OP_SCALE && beta == 0);
  for (const double x : call.inputs[0].values()) {
    switch (call.what.op) {
      case QUERN_OP_SCALE: {
        const double r = beta == 0 ? alpha * x : alpha * x + beta;  // without beta -0 is kept
        y.add(r, product_error(alpha, x) + narrow_store(to, r));
        break;
      }
      case QUERN_OP_NEG: y.add(-x, 0); break;
      case QUERN_OP_SQR: y.add(x * x, 0); break;
      case QUERN_OP_SQRT: y.add(std::sqrt(x), 3 * ulp_f32(std::sqrt(x))); break;
      case QUERN_OP_ABS: y.add(std::fabs(x), 0); break;
      default: y.add(std::isnan(x) ? x : std::min(std::max(x, low), high), 0); break;
    }
  }
}

void fill_reference(const ReferenceCall& call, Expected& expected) {
  const auto count = static_cast<std::size_t>(element_count(call.what.outputs[0].dims));
  expected.outputs[0].rule = Rule::value;
  expected.outputs[0].value.assign(count, call.attribute(QUERN_KEY_VALUE, 0));
}

void cumsum(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const std::int64_t n = x.dim_from_end(0);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  double sum = 0, scale = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    if (i % n == 0) sum = scale = 0;
    const double v = x.at(i);
    sum += v;
    scale += std::fabs(v);
    y.add(sum, accumulation_bound(Tier::t1, static_cast<double>(i % n + 1), scale) + narrow_store(to, sum));
  }
}

Case make(std::uint32_t op, Profile profile, std::vector<ValueSpec> inputs, ValueSpec y, ReferenceFunction reference,
          std::vector<Attribute> attributes = {}) {
  Case c;
  c.group = "elementwise";
  c.op = op;
  c.profile = profile;
  c.level = level_inference;
  c.inputs = std::move(inputs);
  c.outputs = {std::move(y)};
  c.attributes = std::move(attributes);
  c.reference = reference;
  return c;
}

void generate_binary(CaseSink& sink, std::uint32_t op, const std::vector<Attribute>& attributes) {
  struct Pair {
    Dims a, b;
  };
  const Pair pairs[] = {{{1}, {1}},
                        {{5, 31}, {5, 31}},
                        {{5, 31}, {31}},
                        {{5, 31}, {1}},
                        {{5, 31}, {5, 1}},
                        {{3, 4, 65}, {4, 65}},
                        {{3, 4, 65}, {3, 1, 65}},
                        {{17, 576}, {576}},
                        {{2, 3, 5, 7}, {3, 1, 7}},
                        {{129, 257}, {129, 257}}};
  for (const quern_dtype dtype : float_dtypes) {
    for (const Pair& p : pairs)
      for (const DataKind data : {DataKind::gaussian, DataKind::specials, DataKind::exponents}) {
        const ValueSpec a = input(dtype, p.a, data), b = input(dtype, p.b, data);
        sink.add(make(op, Profile::quick, {a, b}, output(dtype, p.a), binary, attributes));
        if (data == DataKind::exponents) sink.add(make(op, Profile::quick, {a, b}, in_place(a, 0), binary, attributes));
        if (p.a.size() < 2 || data == DataKind::specials) continue;
        sink.add(make(op, Profile::full, {input(dtype, p.a, data, rows_apart(3)), b}, output(dtype, p.a), binary, attributes));
        sink.add(make(op, Profile::full, {a, input(dtype, p.b, data, shifted())}, output(dtype, p.a, rows_apart(1)), binary, attributes));
      }
    if (!attributes.empty()) continue;
    for (const quern_dtype other : float_dtypes)
      for (const quern_dtype to : float_dtypes)
        if (dtype != other || dtype != to)
          sink.add(make(op, Profile::quick, {input(dtype, {5, 33}, DataKind::exponents), input(other, {33}, DataKind::exponents)},
                        output(to, {5, 33}), binary));
  }
  if (attributes.empty())
    sink.add(make(op, Profile::quick, {input(QUERN_F32, {0, 4}), input(QUERN_F32, {4})}, output(QUERN_F32, {0, 4}), binary));
}

void generate_unary(CaseSink& sink, std::uint32_t op, const std::vector<Attribute>& attributes, ReferenceFunction reference) {
  for (const quern_dtype dtype : float_dtypes)
    for (const Dims& dims : {Dims{1}, Dims{33}, Dims{5, 31}, Dims{3, 4, 65}, Dims{17, 1025}})
      for (const DataKind data : {DataKind::specials, DataKind::exponents, DataKind::positive}) {
        if (op == QUERN_OP_CUMSUM && data == DataKind::specials) continue;  // an infinity leaves nothing to compare behind it
        const ValueSpec x = input(dtype, dims, data);
        sink.add(make(op, Profile::quick, {x}, output(dtype, dims), reference, attributes));
        if (data == DataKind::exponents) sink.add(make(op, Profile::quick, {x}, in_place(x, 0), reference, attributes));
        if (dims.size() < 2) continue;
        sink.add(make(op, Profile::full, {input(dtype, dims, data, rows_apart(3))}, output(dtype, dims), reference, attributes));
        sink.add(make(op, Profile::full, {x}, output(dtype, dims, rows_apart(1)), reference, attributes));
      }
}

/// A NaN in the middle of row 1: nothing before it knows, everything behind it does.
void fill_one_nan(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set(i, i == n + n / 2 ? std::numeric_limits<double>::quiet_NaN() : random.gaussian(static_cast<std::uint64_t>(i)));
}

void generate_long_cumsum(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) {
    for (const std::int64_t n : {255, 256, 257, 513, 4097, 49152})
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::integers})
        sink.add(make(QUERN_OP_CUMSUM, n == 513 || (n == 4097 && data == DataKind::positive) ? Profile::quick : Profile::full,
                      {input(dtype, {3, n}, data)}, output(dtype, {3, n}), cumsum));
    sink.add(make(QUERN_OP_CUMSUM, Profile::quick, {filled(input(dtype, {3, 577}), "one_nan", fill_one_nan)}, output(dtype, {3, 577}),
                  cumsum));
    for (const Layout& layout : {ordered({1, 0, 2}), ordered({0, 2, 1}), shifted()}) {
      sink.add(make(QUERN_OP_CUMSUM, Profile::quick, {input(dtype, {3, 4, 65}, DataKind::positive, layout)}, output(dtype, {3, 4, 65}),
                    cumsum));
      sink.add(make(QUERN_OP_CUMSUM, Profile::full, {input(dtype, {3, 4, 1041})}, output(dtype, {3, 4, 1041}, layout), cumsum));
    }
  }
  sink.add(make(QUERN_OP_CUMSUM, Profile::quick, {input(QUERN_F32, {3, 0})}, output(QUERN_F32, {3, 0}), cumsum));
}

/// Values that f32 has and a narrower dtype rounds, or that i32 alone holds whole.
void generate_fill_values(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const double value : {0.333333343, 1e-7, 70000.0, -1e30, 0x1p-24, infinity, -infinity}) {
      sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, {5, 31}), fill_reference,
                    {{QUERN_KEY_VALUE, static_cast<double>(static_cast<float>(value))}}));
      sink.add(make(QUERN_OP_FILL, Profile::full, {}, output(dtype, {17, 1025}, rows_apart(1)), fill_reference,
                    {{QUERN_KEY_VALUE, static_cast<double>(static_cast<float>(value))}}));
    }
  for (const double value : {2147483520.0, -2147483648.0, 16777216.0})
    sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(QUERN_I32, {5, 31}), fill_reference, {{QUERN_KEY_VALUE, value}}));
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32}) {
    for (const Layout& layout : {ordered({1, 0, 2}), ordered({0, 2, 1}), shifted()})
      sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, {3, 4, 9}, layout), fill_reference, {{QUERN_KEY_VALUE, 7}}));
    sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, {0, 9}), fill_reference, {{QUERN_KEY_VALUE, 7}}));
    sink.add(make(QUERN_OP_FILL, Profile::full, {}, output(dtype, {1025, 1025}), fill_reference, {{QUERN_KEY_VALUE, 7}}));
  }
}

void generate(CaseSink& sink) {
  for (const std::uint32_t op : {QUERN_OP_ADD, QUERN_OP_SUB, QUERN_OP_MUL, QUERN_OP_DIV}) generate_binary(sink, op, {});
  generate_binary(sink, QUERN_OP_ADD, {{QUERN_KEY_ALPHA, -0.375}});
  for (const quern_dtype dtype : float_dtypes)  // as a gradient is subtracted
    sink.add(make(QUERN_OP_ADD, Profile::quick, {input(dtype, {5, 33}, DataKind::specials), input(dtype, {33}, DataKind::specials)},
                  output(dtype, {5, 33}), binary, {{QUERN_KEY_ALPHA, -0.5}}));
  for (const std::uint32_t op : {QUERN_OP_NEG, QUERN_OP_SQR, QUERN_OP_SQRT, QUERN_OP_ABS}) generate_unary(sink, op, {}, unary);
  generate_unary(sink, QUERN_OP_SCALE, {{QUERN_KEY_ALPHA, 2.5}}, unary);
  generate_unary(sink, QUERN_OP_SCALE, {{QUERN_KEY_ALPHA, -0.125}, {QUERN_KEY_BETA, 0.75}}, unary);
  generate_unary(sink, QUERN_OP_CLAMP, {{QUERN_KEY_MIN, -0.5}}, unary);
  generate_unary(sink, QUERN_OP_CLAMP, {{QUERN_KEY_MIN, -0.25}, {QUERN_KEY_MAX, 0.5}}, unary);
  generate_unary(sink, QUERN_OP_CUMSUM, {}, cumsum);
  generate_long_cumsum(sink);
  generate_fill_values(sink);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32})
    for (const Dims& dims : {Dims{1}, Dims{7, 33}, Dims{2, 3, 129}}) {
      sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, dims), fill_reference));
      sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, dims), fill_reference, {{QUERN_KEY_VALUE, -3}}));
      if (dims.size() > 1)
        sink.add(make(QUERN_OP_FILL, Profile::quick, {}, output(dtype, dims, rows_apart(3)), fill_reference, {{QUERN_KEY_VALUE, 5}}));
    }
}

}  // namespace

extern const Family elementwise_family;
const Family elementwise_family = {"elementwise", generate};

}  // namespace quern::conformance
