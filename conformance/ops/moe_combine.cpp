// moe_combine: y[t] = sum over u of weight[t][u] x[t][u], in the order of u. Bound: T1 of `used` terms.
#include "ops/given.hpp"
#include "ops/hard_values.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  const std::int64_t tokens = x.dims()[0], used = x.dims()[1], n = x.dims()[2];
  const std::vector<double> values = x.values(), w = weight.values();
  ExpectedOutput& y = expected.outputs[0];
  y.rule = call.what.inputs[0].data == DataKind::integers && call.what.inputs[1].data == DataKind::integers ? Rule::value : Rule::bounded;
  y.length = static_cast<double>(used);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0, scale = 0;
      for (std::int64_t u = 0; u < used; ++u) {
        const double product = w[static_cast<std::size_t>(t * used + u)] * values[static_cast<std::size_t>((t * used + u) * n + i)];
        sum += product;
        scale += std::fabs(product);
      }
      y.add(sum, accumulation_bound(Tier::t1, static_cast<double>(used), scale) + narrow_store(call.what.outputs[0].dtype, sum));
      y.scale.push_back(scale);
    }
}

void generate(CaseSink& sink) {
  const auto add = [&](Profile profile, quern_dtype x, quern_dtype y, Dims dims, DataKind data, DataKind weights, Layout x_layout = {},
                       Layout y_layout = {}) {
    Case c;
    c.group = "moe";
    c.op = QUERN_OP_MOE_COMBINE;
    c.profile = profile;
    c.level = level_inference;
    c.inputs = {input(x, dims, data, std::move(x_layout)), input(QUERN_F32, {dims[0], dims[1]}, weights)};
    c.outputs = {output(y, {dims[0], dims[2]}, std::move(y_layout))};
    c.reference = reference;
    sink.add(std::move(c));
  };
  for (const quern_dtype dtype : float_dtypes) {
    for (const std::int64_t used : {1, 2, 4, 8})
      for (const std::int64_t n : {1, 31, 64, 576, 2048, 4097})
        for (const DataKind data : {DataKind::gaussian, DataKind::integers, DataKind::heavy})
          add(n <= 64 ? Profile::quick : Profile::full, dtype, dtype, {5, used, n}, data,
              data == DataKind::integers ? data : DataKind::uniform);
    for (const std::int64_t tokens : {1, 33, 129})
      add(Profile::full, dtype, dtype, {tokens, 2, 576}, DataKind::exponents, DataKind::positive);
    add(Profile::quick, dtype, QUERN_F32, {3, 2, 100}, DataKind::gaussian, DataKind::uniform, rows_apart(1));
    for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), ordered({0, 2, 1}), shifted()})
      add(Profile::quick, dtype, dtype, {4, 3, 33}, DataKind::gaussian, DataKind::uniform, layout);
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
      add(Profile::quick, dtype, dtype, {4, 3, 33}, DataKind::gaussian, DataKind::uniform, {}, layout);
    add(Profile::full, dtype, dtype, {0, 2, 8}, DataKind::gaussian, DataKind::uniform);
    for (const std::size_t which : {0u, 1u}) {  // a row of x, a token's weight: it stays with its token
      Case c;
      c.group = "moe";
      c.op = QUERN_OP_MOE_COMBINE;
      c.profile = Profile::quick;
      c.level = level_inference;
      c.inputs = {input(dtype, {7, 3, 33}), input(QUERN_F32, {7, 3})};
      c.inputs[which] = filled(std::move(c.inputs[which]), "not_finite_rows", fill_not_finite_rows);
      c.outputs = {output(dtype, {7, 33})};
      c.reference = reference;
      sink.add(std::move(c));
    }
  }
}

}  // namespace

extern const Family moe_combine_family;
const Family moe_combine_family = {"moe_combine", generate};

}  // namespace quern::conformance
