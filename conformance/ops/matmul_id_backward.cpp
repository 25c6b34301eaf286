// matmul_id_backward: da[t][u] = dy[t][u] b[id[t][u]] (summed over u where a has one row a token), db[e] = sum over its pairs of dy^T a.
//
// Bound: T1 of each sum, T2 where both factors have 16 bits; db that is accumulated has its old value as one more term.
#include "ops/given.hpp"
#include "quern/quern_plan.h"

#include <algorithm>

namespace quern::conformance {
namespace {

struct Sums {
  explicit Sums(std::int64_t count) : value(static_cast<std::size_t>(count)), scale(value.size()), terms(value.size()) {}
  std::vector<double> value, scale, terms;

  void add(std::int64_t at, double product) {
    const auto i = static_cast<std::size_t>(at);
    value[i] += product;
    scale[i] += std::fabs(product);
    terms[i] += 1;
  }
  void expect(Tier tier, bool integers, quern_dtype dtype, ExpectedOutput& out) const {
    out.rule = integers ? Rule::value : Rule::bounded;
    out.length = *std::ranges::max_element(terms);
    for (std::size_t i = 0; i < value.size(); ++i) {
      out.add(value[i], accumulation_bound(tier, terms[i], scale[i]) + (scale[i] == 0.0 ? 0.0 : narrow_store(dtype, value[i])));
      out.scale.push_back(scale[i]);
    }
  }
};

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &dy = call.inputs[0], &a = call.inputs[1], &b = call.inputs[2], &id = call.inputs[3];
  const ValueSpec &da_spec = call.what.outputs[0], db_spec = call.what.outputs.size() > 1 ? call.what.outputs[1] : absent();
  const std::int64_t used = id.dims()[1], n = dy.dims()[2], k = a.dims()[2], experts = b.absent() ? db_spec.dims[0] : b.dims()[0];
  const bool shared = a.dims()[1] == 1, integers = call.what.inputs[0].data == DataKind::integers;
  const std::vector<double> dy_values = dy.values(), a_values = a.values(), b_values = b.absent() ? std::vector<double>() : b.values();
  Sums da(a.count()), db(db_spec.absent() ? 0 : element_count(db_spec.dims));
  if (call.attribute(QUERN_KEY_ACCUMULATE, 0) != 0)
    for (std::int64_t i = 0; i < call.states[1].count(); ++i) db.add(i, call.states[1].at(i));
  for (std::int64_t pair = 0; pair < id.count(); ++pair) {
    const auto expert = static_cast<std::int64_t>(id.at(pair));
    if (expert < 0 || expert >= experts || !row_live(call, pair / used)) continue;
    const std::int64_t row = (shared ? pair / used : pair) * k;
    for (std::int64_t i = 0; i < n; ++i) {
      const double gradient = dy_values[static_cast<std::size_t>(pair * n + i)];
      for (std::int64_t l = 0; l < k; ++l) {
        const std::int64_t weight = (expert * n + i) * k + l;
        if (!da_spec.absent()) da.add(row + l, gradient * b_values[static_cast<std::size_t>(weight)]);
        if (!db_spec.absent()) db.add(weight, gradient * a_values[static_cast<std::size_t>(row + l)]);
      }
    }
  }
  const auto tier = [&](const Tensor& x) { return dy.dtype() != QUERN_F32 && x.dtype() != QUERN_F32 ? Tier::t2 : Tier::t1; };
  if (!da_spec.absent()) da.expect(tier(b), integers, da_spec.dtype, expected.outputs[0]);
  if (!db_spec.absent()) db.expect(tier(a), integers, db_spec.dtype, expected.outputs[1]);
}

struct Shape {
  std::int64_t tokens = 9, used = 2, experts = 4, n = 17, k = 33;
  bool shared = true, da = true, db = true, accumulate = false;
  quern_dtype dtype = QUERN_F32, weights = QUERN_F32, db_dtype = QUERN_F32;
  DataKind data = DataKind::gaussian;
  Layout layout;
};

std::vector<std::int64_t> ids(const Shape& s, bool one_expert) {
  const CounterRandom random = CounterRandom::of("experts");
  std::vector<std::int64_t> id;
  for (std::int64_t i = 0; i < s.tokens * s.used; ++i)
    id.push_back(one_expert ? 0
                 : i % 11 == 5
                     ? -1
                     : static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(s.experts))));
  return id;
}

Case make(Profile profile, const Shape& s, bool one_expert = false) {
  Case c;
  c.group = "moe";
  c.op = QUERN_OP_MATMUL_ID_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  const Dims a = {s.tokens, s.shared ? 1 : s.used, s.k}, b = {s.experts, s.n, s.k};
  c.inputs = {input(s.dtype, {s.tokens, s.used, s.n}, s.data, s.layout), input(s.dtype, a, s.data, s.layout),
              s.da ? input(s.weights, b, s.data, s.layout) : absent(),
              given(input(QUERN_I32, {s.tokens, s.used}), one_expert ? "one_expert" : "some_dropped", ids(s, one_expert))};
  c.outputs = {s.da ? output(s.dtype, a, s.layout) : absent()};
  if (s.db) c.outputs.push_back(s.accumulate ? state(s.db_dtype, b, s.data, s.layout) : output(s.db_dtype, b, s.layout));
  if (s.accumulate) c.attributes = {{QUERN_KEY_ACCUMULATE, 1}};
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes)
    for (const quern_dtype weights : float_dtypes) {
      Shape s;
      s.dtype = dtype;
      s.weights = weights;
      for (const bool shared : {true, false}) {
        s.shared = shared;
        for (const bool one_expert : {false, true}) sink.add(make(Profile::quick, s, one_expert));
        s.db_dtype = dtype;
        for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::integers, DataKind::one_hot}) {
          s.data = data;
          sink.add(make(Profile::full, s));
        }
        s.data = DataKind::gaussian;
        s.db_dtype = QUERN_F32;
      }
      for (const std::int64_t tokens : {1, 2, 65, 130}) {
        s.tokens = tokens;
        sink.add(make(tokens < 3 ? Profile::quick : Profile::full, s));
      }
    }
  for (const quern_dtype dtype : float_dtypes) {
    Shape s;
    s.dtype = s.weights = dtype;
    for (const std::int64_t n : {1, 31, 64, 65, 130})
      for (const std::int64_t k : {1, 32, 255, 257}) {
        s.n = n;
        s.k = k;
        sink.add(make(n == 65 ? Profile::quick : Profile::full, s));
      }
    for (const std::int64_t experts : {1, 8, 64})
      for (const std::int64_t used : {1, 2, 8}) {
        s = {};
        s.dtype = s.weights = dtype;
        s.experts = experts;
        s.used = used;
        if (experts != 8 || used != 2) sink.add(make(experts == 64 ? Profile::quick : Profile::full, s));
        s.shared = false;
        if (used != 1) sink.add(make(Profile::full, s));  // of one expert a token it is the same
      }
    s = {};
    s.dtype = s.weights = dtype;
    s.da = false;
    sink.add(make(Profile::quick, s));
    s.accumulate = true;
    sink.add(make(Profile::quick, s));
    sink.add(with_predicate(make(Profile::quick, s), {0}, "dead"));
    sink.add(with_predicate(make(Profile::quick, s), {1, 1, 0, 1, 0, 0, 1, 1, 0}, "rows_live"));
    s.db_dtype = dtype;
    s.data = DataKind::integers;
    sink.add(make(Profile::full, s));
    s = {};
    s.dtype = s.weights = dtype;
    s.accumulate = true;
    sink.add(make(Profile::quick, s));
    s.accumulate = s.db = false;
    sink.add(make(Profile::quick, s));
    s.db = true;
    for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), ordered({0, 2, 1}), shifted()}) {
      s.layout = layout;
      sink.add(make(Profile::quick, s));
    }
    s.layout = {};
    Case c = make(Profile::quick, s);
    c.inputs[3] = given(input(QUERN_I32, {s.tokens, s.used}), "out_of_range",
                        std::vector<std::int64_t>{0, 1, 2, 3, 4, -1, -5, 2, 1 << 30, 0, 1, 1, 2, 2, 3, 3, 0, 1});
    c.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(c);
  }
  for (const std::int64_t tokens : {255, 256, 257}) {  // beside a block of tokens
    Shape s;
    s.tokens = tokens;
    sink.add(make(Profile::full, s));
  }
}

}  // namespace

extern const Family matmul_id_backward_family;
const Family matmul_id_backward_family = {"matmul_id_backward", generate};

}  // namespace quern::conformance
