// lora_matmul_backward: with c = alpha * scale, h = A x and g = B^T dy of a row: dx = c A^T g, dA = c sum of g x^T, dB = c sum of dy h^T.
//
// h and g are off by T1 (T2 where both factors have 16 bits) of their products; each gradient by that of its weights times |the other
// factor|, T1 of its own terms, and 2 u for c. Elements of dpool that no row's adapter has are 0, or kept with accumulate, exactly.
#include "ops/lora_pool.hpp"
#include "quern/quern_plan.h"

namespace quern::conformance {
namespace {

struct Low {
  double value = 0, bound = 0;
};

/// Sums of products with the errors of one factor.
struct Sums {
  explicit Sums(std::int64_t count)
      : value(static_cast<std::size_t>(count)), error(value.size()), scale(value.size()), terms(value.size()) {}
  std::vector<double> value, error, scale, terms;

  void add(std::int64_t at, double c, const Low& low, double x) {
    const auto i = static_cast<std::size_t>(at);
    value[i] += c * low.value * x;
    error[i] += std::fabs(c * x) * low.bound;
    scale[i] += std::fabs(c * low.value * x);
    terms[i] += 1;
  }
  void expect(quern_dtype dtype, ExpectedOutput& y) const {
    y.rule = Rule::bounded;
    for (std::size_t i = 0; i < value.size(); ++i)
      y.add(value[i], terms[i] == 0 ? 0.0 : error[i] + (2 * std::sqrt(terms[i]) + 12) * u32 * scale[i] + narrow_store(dtype, value[i]));
  }
};

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &pool = call.inputs[1], &table = call.inputs[2], &slot = call.inputs[3], &dy = call.inputs[4];
  const std::int64_t k = x.dims()[1], n = dy.dims()[1];
  const std::vector<double> weights = pool.values();
  const auto tier = [&](const Tensor& t) { return t.dtype() != QUERN_F32 && pool.dtype() != QUERN_F32 ? Tier::t2 : Tier::t1; };
  Sums dx(x.count()), dpool(pool.count());
  std::vector<double> kept(weights.size(), 0.0);
  if (call.attribute(QUERN_KEY_ACCUMULATE, 0) != 0) kept = call.states[1].values();
  std::vector<double> x_row(static_cast<std::size_t>(k)), dy_row(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < x.dims()[0]; ++t) {
    const std::optional<AdapterPlace> adapter = adapter_of(x, pool, table, static_cast<std::int64_t>(slot.at(t)), n);
    if (!adapter || !row_live(call, t)) continue;
    x.read(t * k, k, x_row.data());
    dy.read(t * n, n, dy_row.data());
    const double c = call.attribute(QUERN_KEY_ALPHA, 1) * adapter->scale;
    for (std::int64_t r = 0; r < adapter->rank; ++r) {
      const std::int64_t a = adapter->a + r * k;
      const auto b_at = [&](std::int64_t i) { return adapter->b + i * adapter->rank + r; };
      Low h, g;
      double h_size = 0, g_size = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double product = weights[static_cast<std::size_t>(a + l)] * x_row[static_cast<std::size_t>(l)];
        h.value += product, h_size += std::fabs(product);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const double product = weights[static_cast<std::size_t>(b_at(i))] * dy_row[static_cast<std::size_t>(i)];
        g.value += product, g_size += std::fabs(product);
      }
      h.bound = accumulation_bound(tier(x), static_cast<double>(k), h_size);
      g.bound = accumulation_bound(tier(dy), static_cast<double>(n), g_size);
      for (std::int64_t l = 0; l < k; ++l) {
        dx.add(t * k + l, c, g, weights[static_cast<std::size_t>(a + l)]);
        dpool.add(a + l, c, g, x_row[static_cast<std::size_t>(l)]);
      }
      for (std::int64_t i = 0; i < n; ++i) dpool.add(b_at(i), c, h, dy_row[static_cast<std::size_t>(i)]);
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {  // what was there is one more term where something is added
    dpool.value[i] += kept[i];
    if (dpool.terms[i] != 0) dpool.scale[i] += std::fabs(kept[i]);
  }
  dx.expect(call.what.outputs[0].dtype, expected.outputs[0]);
  dpool.expect(call.what.outputs[1].dtype, expected.outputs[1]);
  // Adapters are added one by one and each is rounded to the dtype of dpool: as many roundings as adapters share the element.
  const double roundings = static_cast<double>(table.dims()[0]);
  if (call.what.outputs[1].dtype != QUERN_F32)
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (dpool.terms[i] != 0)
        expected.outputs[1].bound[i] += (roundings - 1) * (call.what.outputs[1].dtype == QUERN_F16 ? u16 : ub16) * dpool.scale[i];
}

Case make(Profile profile, const LoraShape& s, quern_dtype dy, quern_dtype dpool, bool accumulate, Layout layout = {}) {
  Case c;
  c.group = "lora";
  c.op = QUERN_OP_LORA_MATMUL_BACKWARD;
  c.profile = profile;
  c.level = level_training;
  c.inputs = lora_inputs(s, layout);
  c.inputs.push_back(input(dy, {s.rows, s.n}, DataKind::gaussian, layout));
  c.outputs = {output(s.x, {s.rows, s.k}, layout), accumulate ? state(dpool, {pool_size(s)}) : output(dpool, {pool_size(s)})};
  if (s.alpha != 1) c.attributes.push_back({QUERN_KEY_ALPHA, s.alpha});
  if (accumulate) c.attributes.push_back({QUERN_KEY_ACCUMULATE, 1});
  c.note = lora_note(s);
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const quern_dtype x : float_dtypes)
    for (const quern_dtype pool : float_dtypes) {
      LoraShape s;
      s.x = x;
      s.pool = pool;
      for (const std::int64_t rank : {1, 2, 3, 8, 13, 16, 32, 64, 256, 300}) {
        s.adapters = {{rank, 0.5f}};
        sink.add(make(rank <= 32 ? Profile::quick : Profile::full, s, x, QUERN_F32, false));
        sink.add(make(Profile::full, s, x, QUERN_F32, true));
        s.adapters = {{rank, 0.5f}, {8, 2}, {rank + 1, -0.125f}};
        s.rows = 9;
        sink.add(make(rank <= 8 && x == QUERN_F32 ? Profile::quick : Profile::full, s, x, pool, false));
        s.rows = 5;
      }
      s.adapters = {{8, 2}, {16, 1}};
      s.alpha = 2;
      for (const std::int64_t rows : {1, 7, 33, 65, 130}) {
        s.rows = rows;
        sink.add(make(rows == 7 ? Profile::quick : Profile::full, s, x, QUERN_F32, true));
      }
      s.rows = 7;
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot}) {
        s.data = data;
        sink.add(make(Profile::full, s, x, QUERN_F32, false));
      }
    }
  for (const quern_dtype dtype : float_dtypes) {
    struct Widths {
      std::int64_t k, n;
    };
    LoraShape s;
    s.x = s.pool = dtype;
    s.adapters = {{16, 2}, {5, 0.5f}};
    for (const Widths w : {Widths{1, 1}, {31, 33}, {257, 129}, {576, 576}, {2048, 256}}) {
      s.k = w.k;
      s.n = w.n;
      sink.add(make(w.k < 576 ? Profile::quick : Profile::full, s, dtype, QUERN_F32, false));
    }
    s = {};
    s.x = s.pool = dtype;
    s.adapters = {{8, 2}, {0, 1}, {5, 1}};
    s.rows = 7;
    s.slots = {2, 0, 1, -1, 0, 0, 2};
    for (const bool accumulate : {false, true}) sink.add(make(Profile::quick, s, dtype, QUERN_F32, accumulate));
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
      sink.add(make(Profile::quick, s, dtype, QUERN_F32, false, layout));
    s.slots.assign(7, -1);  // no adapter at all: dx is 0, dpool 0 or kept
    for (const bool accumulate : {false, true}) sink.add(make(Profile::quick, s, dtype, QUERN_F32, accumulate));
    s.slots = {0, 3, 2, -2, 2, -1, 1000000};
    Case stray = make(Profile::quick, s, dtype, QUERN_F32, true);
    stray.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(stray);
    s.slots = {0, 1, 2, 1, 0, -1, 2};
    Case shared = make(Profile::quick, s, dtype, QUERN_F32, false);  // all three over each other
    shared.inputs[1] = input(dtype, {pool_size(s)});
    shared.inputs[2] = given(shared.inputs[2], "overlapping",
                             std::vector<double>{5, 600, 8, bits_as_i32(1), 37, 620, 4, bits_as_i32(2), 5, 600, 8, bits_as_i32(-0.5f)});
    sink.add(shared);
    shared.inputs[2] = given(shared.inputs[2], "outside_pool",
                             std::vector<double>{5, 1e6, 8, bits_as_i32(1), 37, 620, 4, bits_as_i32(2), -1, 600, 8, bits_as_i32(1)});
    shared.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(shared);
  }
}

}  // namespace

extern const Family lora_matmul_backward_family;
const Family lora_matmul_backward_family = {"lora_matmul_backward", generate};

}  // namespace quern::conformance
