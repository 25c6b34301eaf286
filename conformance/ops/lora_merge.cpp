// lora_merge: y = w + alpha b a. Bound: T1 (T2 where a and b have 16 bits) of the rank's products and w.
#include "ops/family.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &w = call.inputs[0], &a = call.inputs[1], &b = call.inputs[2];
  const std::int64_t n = w.dims()[0], k = w.dims()[1], rank = a.dims()[0];
  const std::vector<double> w_values = w.values(), a_values = a.values(), b_values = b.values();
  const double alpha = call.attribute(QUERN_KEY_ALPHA, 1);
  const Tier tier = a.dtype() != QUERN_F32 && b.dtype() != QUERN_F32 ? Tier::t2 : Tier::t1;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = call.what.inputs[0].data == DataKind::integers ? Rule::value : Rule::bounded;
  y.length = static_cast<double>(rank + 1);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t l = 0; l < k; ++l) {
      double sum = 0, scale = 0;
      for (std::int64_t r = 0; r < rank; ++r) {
        const double product = alpha * b_values[static_cast<std::size_t>(i * rank + r)] * a_values[static_cast<std::size_t>(r * k + l)];
        sum += product;
        scale += std::fabs(product);
      }
      const double before = w_values[static_cast<std::size_t>(i * k + l)];
      y.add(before + sum,
            accumulation_bound(tier, y.length, scale + std::fabs(before)) + narrow_store(call.what.outputs[0].dtype, before + sum));
      y.scale.push_back(scale + std::fabs(before));
    }
}

void generate(CaseSink& sink) {
  const auto add = [&](Profile profile, quern_dtype w, quern_dtype ab, quern_dtype y, std::int64_t n, std::int64_t k, std::int64_t rank,
                       double alpha, DataKind data = DataKind::gaussian, Layout w_layout = {}, Layout ab_layout = {},
                       Layout y_layout = {}) {
    Case c;
    c.group = "lora";
    c.op = QUERN_OP_LORA_MERGE;
    c.profile = profile;
    c.level = level_training;
    c.inputs = {input(w, {n, k}, data, std::move(w_layout)), input(ab, {rank, k}, data, ab_layout), input(ab, {n, rank}, data, ab_layout)};
    c.outputs = {output(y, {n, k}, std::move(y_layout))};
    if (alpha != 1) c.attributes.push_back({QUERN_KEY_ALPHA, alpha});
    c.reference = reference;
    sink.add(std::move(c));
  };
  for (const quern_dtype w : float_dtypes)
    for (const quern_dtype ab : float_dtypes) {
      for (const std::int64_t rank : {1, 2, 7, 8, 16, 32, 64, 256})
        for (const double alpha : {1.0, -0.5}) add(rank <= 16 ? Profile::quick : Profile::full, w, ab, w, 33, 65, rank, alpha);
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::integers, DataKind::one_hot})
        add(Profile::full, w, ab, w, 17, 40, 16, 1, data);
      add(Profile::full, w, ab, w, 576, 576, 16, 2);
      add(Profile::full, w, ab, w, 1, 1, 1, 2);
      add(Profile::full, w, ab, w, 257, 31, 8, 0);
    }
  for (const quern_dtype dtype : float_dtypes)
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
      add(Profile::quick, dtype, dtype, dtype, 9, 33, 4, 2, DataKind::gaussian, layout);
      add(Profile::quick, dtype, dtype, dtype, 9, 33, 4, 2, DataKind::gaussian, {}, layout);
      add(Profile::quick, dtype, dtype, dtype, 9, 33, 4, 2, DataKind::gaussian, {}, {}, layout);
    }
}

}  // namespace

extern const Family lora_merge_family;
const Family lora_merge_family = {"lora_merge", generate};

}  // namespace quern::conformance
