// lora_matmul: y[t] = base[t] + c B (A x[t]) with the adapter of the row, c = alpha * its scale.
//
// h = A x is off by T1 (T2 where x and pool have 16 bits) of its k products; so y by |c| (sum |B| E(h) + T1 of the rank's products) and 4 u
// of the terms of the last addition. In fast numerics x, A, h and B may be converted: deviations of h and y from half a step of each. Slot
// -1 copies base bit for bit (zeros without base): cases whose slots are all -1 are judged by their bits, with NaN payloads and -0. An
// adapter whose B is 0 leaves the value of base as it is. A slot or an adapter out of range gives zeros and INDEX_RANGE.
#include "ops/hard_values.hpp"
#include "ops/lora_pool.hpp"
#include "quern/quern_plan.h"

#include <algorithm>

namespace quern::conformance {
namespace {

double relative_step(std::uint32_t conversions) {
  return (conversions & QUERN_CONVERT_BF16) != 0 ? 0x1p-8 : conversions != 0 ? 0x1p-11 : 0.0;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &pool = call.inputs[1], &table = call.inputs[2], &slot = call.inputs[3];
  const bool has_base = call.inputs.size() > 4 && !call.inputs[4].absent();
  const quern_dtype dtype = call.what.outputs[0].dtype;
  const std::int64_t k = x.dims()[1], n = call.what.outputs[0].dims[1];
  const std::vector<double> weights = pool.values();
  const Tier tier = x.dtype() != QUERN_F32 && pool.dtype() != QUERN_F32 ? Tier::t2 : Tier::t1;
  const double step = relative_step(call.what.fast_conversions);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  std::vector<double> row(static_cast<std::size_t>(k));
  for (std::int64_t t = 0; t < x.dims()[0]; ++t) {
    const auto chosen = static_cast<std::int64_t>(slot.at(t));
    const std::optional<AdapterPlace> adapter = adapter_of(x, pool, table, chosen, n);
    x.read(t * k, k, row.data());
    struct Low {
      double value, bound, variance;
    };
    std::vector<Low> h;
    for (std::int64_t r = 0; adapter && r < adapter->rank; ++r) {
      double sum = 0, scale = 0, squares = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double product = row[static_cast<std::size_t>(l)] * weights[static_cast<std::size_t>(adapter->a + r * k + l)];
        sum += product;
        scale += std::fabs(product);
        squares += product * product;
      }
      h.push_back({sum, accumulation_bound(tier, static_cast<double>(k), scale), step * step * (2 * squares + sum * sum) / 3});
    }
    const double c = adapter ? call.attribute(QUERN_KEY_ALPHA, 1) * adapter->scale : 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0, scale = 0, moved = 0, variance = 0;
      for (std::size_t r = 0; r < h.size(); ++r) {
        const double b = weights[static_cast<std::size_t>(adapter->b + i * adapter->rank) + r];
        sum += b * h[r].value;
        scale += std::fabs(b * h[r].value);
        moved += std::fabs(b) * h[r].bound;
        variance += b * b * (h[r].variance + step * step * h[r].value * h[r].value / 3);
      }
      const double base = has_base && (adapter || chosen == -1) ? call.inputs[4].at(t * n + i) : 0.0, r = base + c * sum;
      const bool copied = h.empty();  // nothing is rounded
      const double own = accumulation_bound(tier, static_cast<double>(h.size()), scale) + moved;
      y.add(r, copied ? 0.0 : std::fabs(c) * own + 4 * u32 * (std::fabs(base) + std::fabs(c) * scale) + narrow_store(dtype, r));
      y.deviation.push_back(std::fabs(c) * std::sqrt(variance));
    }
  }
}

/// Of cases whose rows have no adapter.
void reference_copy(const ReferenceCall& call, Expected& expected) {
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bits;
  y.bytes.assign(packed_bytes(call.what.outputs[0].dtype, call.what.outputs[0].dims), std::byte{0});
  if (call.inputs.size() > 4) std::ranges::copy(call.inputs[4].bytes(), y.bytes.begin());
}
/// Of cases whose B is 0.
void reference_base(const ReferenceCall& call, Expected& expected) {
  expected.outputs[0].rule = Rule::value;
  for (const double v : call.inputs[4].values()) expected.outputs[0].add(v, 0);
}

Case make(Profile profile, const LoraShape& s, quern_dtype y, bool base, Layout x_layout = {}, Layout y_layout = {}) {
  Case c;
  c.group = "lora";
  c.op = QUERN_OP_LORA_MATMUL;
  c.profile = profile;
  c.level = level_training;
  c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  c.inputs = lora_inputs(s, std::move(x_layout));
  if (base) c.inputs.push_back(input(y, {s.rows, s.n}, DataKind::gaussian, y_layout));
  c.outputs = {output(y, {s.rows, s.n}, y_layout)};
  if (s.alpha != 1) c.attributes.push_back({QUERN_KEY_ALPHA, s.alpha});
  c.note = lora_note(s);
  c.reference = reference;
  return c;
}

void ranks_and_dtypes(CaseSink& sink) {
  for (const quern_dtype x : float_dtypes)
    for (const quern_dtype pool : float_dtypes) {
      LoraShape s;
      s.x = x;
      s.pool = pool;
      for (const std::int64_t rank : {1, 2, 3, 4, 7, 8, 13, 16, 32, 64, 100, 256, 300}) {
        s.adapters = {{rank, 0.5f}};
        sink.add(make(rank <= 64 ? Profile::quick : Profile::full, s, x, true));
        s.adapters = {{rank, 0.5f}, {8, 2}, {rank + 1, -0.125f}};
        s.rows = 9;
        sink.add(make(rank <= 16 && x == QUERN_F32 ? Profile::quick : Profile::full, s, x, true));
        s.rows = 5;
      }
      s.adapters = {{8, 2}, {16, 1}};
      s.rows = 7;
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot}) {
        s.data = data;
        sink.add(make(Profile::full, s, x, true));
        sink.add(make(Profile::full, s, QUERN_F32, false));
      }
      s.data = DataKind::gaussian;
      s.alpha = 2;
      sink.add(make(Profile::quick, s, QUERN_F32, false));
      s.k = 100;
      s.n = 33;
      sink.add(make(Profile::quick, s, x, false));
    }
}

void rows_and_adapters(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) {
    for (const std::int64_t rows : {1, 2, 8, 9, 17, 33, 65}) {
      LoraShape s;
      s.x = s.pool = dtype;
      s.rows = rows;
      for (const std::int64_t adapters : {1, 3, 8}) {
        s.adapters.clear();
        for (std::int64_t i = 0; i < adapters; ++i) s.adapters.push_back({4 + 3 * i, static_cast<float>(i % 3 + 1) / 2});
        sink.add(make(rows <= 9 ? Profile::quick : Profile::full, s, dtype, true));
      }
    }
    struct Widths {
      std::int64_t k, n;
    };
    for (const Widths w : {Widths{1, 1}, {31, 33}, {257, 129}, {576, 576}, {576, 192}, {2048, 256}}) {
      LoraShape s;
      s.x = s.pool = dtype;
      s.k = w.k;
      s.n = w.n;
      s.adapters = {{16, 2}, {8, 0.5f}};
      sink.add(make(w.k < 576 ? Profile::quick : Profile::full, s, dtype, true));
    }
    LoraShape s;
    s.x = s.pool = dtype;
    s.adapters = {{8, 2}, {0, 1}, {5, 1}};  // a rank of 0 adds nothing
    s.slots = {2, 0, 1, -1, 0, 0, 2};
    s.rows = 7;
    sink.add(make(Profile::quick, s, dtype, true));
    sink.add(make(Profile::quick, s, dtype, false));
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
      sink.add(make(Profile::quick, s, dtype, true, layout));
      sink.add(make(Profile::quick, s, dtype, true, {}, layout));
    }
    for (const bool base : {true, false}) {
      s.slots.assign(7, -1);
      Case c = make(Profile::quick, s, dtype, base);
      if (base) c.inputs[4].data = DataKind::specials;
      c.reference = reference_copy;
      c.fast_conversions = 0;
      sink.add(c);
    }
    s.slots = {0, 1, 0, 1, 2, 2, 0};
    Case zero = make(Profile::quick, s, dtype, true);
    zero.inputs[1] = given(zero.inputs[1], "zeros", std::vector<double>(static_cast<std::size_t>(pool_size(s)), 0.0));
    zero.reference = reference_base;
    zero.fast_conversions = 0;
    sink.add(zero);
    s.slots = {0, 3, 1, -2, 2, -1, 1000000};
    Case stray = make(Profile::quick, s, dtype, true);
    stray.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(stray);
    s.slots = {0, 1, 2, 1, 0, -1, 2};
    Case outside = make(Profile::quick, s, dtype, true);
    const double size = static_cast<double>(pool_size(s));
    outside.inputs[2] =
        given(outside.inputs[2], "outside_pool",
              std::vector<double>{5, size - 8 * 48 + 1, 8, bits_as_i32(1), -1, 5, 4, bits_as_i32(1), 5, 600, 8, bits_as_i32(1)});
    outside.inputs[1] = input(dtype, {pool_size(s)});
    outside.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(outside);
    s.slots.clear();
    s.rows = 0;
    sink.add(make(Profile::full, s, dtype, true));
  }
}

/// Numbers that kernels get wrong (hard_values.hpp), in x and in base: each stays in its row.
void hard_values(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) {
    LoraShape s;
    s.x = s.pool = dtype;
    s.k = 257;
    s.rows = 14;
    s.adapters = {{8, 2}, {13, 0.5f}};
    s.slots = {0, 1, 1, 0, 0, 1, -1, 0, 1, 1, 0, -1, 0, 1};
    const auto add = [&](std::size_t input, const char* name, void (*fill)(const Tensor&, const CounterRandom&)) {
      Case c = make(Profile::quick, s, dtype, true);
      c.inputs[input] = filled(std::move(c.inputs[input]), name, fill);
      sink.add(std::move(c));
    };
    add(0, "not_finite_rows", fill_not_finite_rows);
    add(4, "not_finite_rows", fill_not_finite_rows);
    add(0, "beyond_f16", fill_beyond_f16);
    add(0, "tiny_blocks", fill_tiny_blocks);
  }
}

void generate(CaseSink& sink) {
  ranks_and_dtypes(sink);
  rows_and_adapters(sink);
  hard_values(sink);
}

}  // namespace

extern const Family lora_matmul_family;
const Family lora_matmul_family = {"lora_matmul", generate};

}  // namespace quern::conformance
