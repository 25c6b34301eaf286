// Counts that outgrow what kernels count with: rows beyond a grid dimension of 65,535 (full); elements, bytes and strides beyond 2^31 and
// 2^32 (huge). The references are those of the ops' own families, which come before this one.
//
// Of a huge output rows are judged: both ends, those beside each power of two in rows, elements and bytes, and 1,000 seeded ones. Copies are
// judged whole.
#include "ops/given.hpp"
#include "ops/resized.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace quern::conformance {
namespace {

constexpr std::int64_t many = 70001;  // rows: more than 65,535, and no multiple of anything
constexpr std::size_t seeded_rows = 1000;

/// Ascending. `units`: how many elements, and how many bytes, a row has.
std::vector<std::int64_t> judged_rows(const std::string& name, std::int64_t rows, const std::vector<std::int64_t>& units) {
  std::set<std::int64_t> chosen = {0, rows - 1};
  const auto beside = [&](std::int64_t row) {
    for (const std::int64_t r : {row - 1, row, row + 1})
      if (r >= 0 && r < rows) chosen.insert(r);
  };
  for (int power = 8; power < 40; ++power) {
    beside(std::int64_t{1} << power);
    for (const std::int64_t unit : units) beside((std::int64_t{1} << power) / unit);
  }
  const CounterRandom random = CounterRandom::of(name).stream(2000);
  for (std::size_t i = 0; i < seeded_rows; ++i) chosen.insert(static_cast<std::int64_t>(random.below(i, static_cast<std::uint64_t>(rows))));
  return {chosen.begin(), chosen.end()};
}

Tensor gathered(const Tensor& from, const std::vector<std::int64_t>& rows) {
  const std::int64_t n = from.dim_from_end(0);
  Tensor to(from.dtype(), {static_cast<std::int64_t>(rows.size()), n});
  const std::uint64_t bytes = packed_bytes(from.dtype(), {n});
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::memcpy(to.bytes().data() + r * bytes, from.bytes().data() + static_cast<std::uint64_t>(rows[r]) * bytes, bytes);
  return to;
}

/// The reference of an op whose rows stand for themselves, for some rows alone. Bit i of `row_inputs`: input i has these rows; others are
/// read whole.
Reference some_rows(Reference reference, std::uint32_t row_inputs) {
  return [reference = std::move(reference), row_inputs](const ReferenceCall& call, Expected& expected) {
    const ValueSpec& y = call.what.outputs[0];
    const std::int64_t n = y.dims.back(), bytes = static_cast<std::int64_t>(packed_bytes(y.dtype, {n}));
    const std::vector<std::int64_t> rows = judged_rows(call.what.name, element_count(y.dims) / n, {n, bytes});
    Case what = call.what;
    std::vector<Tensor> inputs = call.inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if ((row_inputs >> i & 1u) == 0 || inputs[i].absent()) continue;
      inputs[i] = gathered(call.inputs[i], rows);
      what.inputs[i].dims = inputs[i].dims();
    }
    what.outputs[0].dims = {static_cast<std::int64_t>(rows.size()), n};
    reference({what, inputs, call.states}, expected);
    for (const std::int64_t row : rows)
      for (std::int64_t i = 0; i < n; ++i) expected.outputs[0].index.push_back(row * n + i);
  };
}

void many_rows(CaseSink& sink) {
  const auto rows = [&](std::uint32_t op, const std::vector<quern_dtype>& dtypes, const std::vector<Dims>& inputs, const Dims& y) {
    sink.add(resized(like(sink, op, dtypes), Profile::full, inputs, y, DataKind::gaussian));
  };
  constexpr quern_dtype f32 = QUERN_F32, f16 = QUERN_F16, none = QUERN_DTYPE_NONE;
  rows(QUERN_OP_COPY, {f32, f32}, {{many, 9}}, {many, 9});
  rows(QUERN_OP_CAST, {f32, f16}, {{many, 9}}, {many, 9});
  rows(QUERN_OP_CAST, {QUERN_Q8_0, f32}, {{many, 32}}, {many, 32});
  rows(QUERN_OP_ADD, {f32, f32, f32}, {{many, 9}, {many, 1}}, {many, 9});
  rows(QUERN_OP_SILU, {f32, f32}, {{many, 9}}, {many, 9});
  rows(QUERN_OP_GLU, {f32, f32, f32}, {{many, 9}, {many, 9}}, {many, 9});
  rows(QUERN_OP_RMS_NORM, {f32, f32, f32}, {{many, 33}, {33}}, {many, 33});
  rows(QUERN_OP_LAYER_NORM, {f32, f32, f32, f32}, {{many, 33}, {33}, {33}}, {many, 33});
  rows(QUERN_OP_SOFTMAX, {f32, none, none, f32}, {{many, 1, 17}, {}, {}}, {many, 1, 17});
  rows(QUERN_OP_LOGSUMEXP, {f32, f32}, {{many, 17}}, {many});
  rows(QUERN_OP_ARGMAX, {f32, QUERN_I32}, {{many, 17}}, {many});
  rows(QUERN_OP_SUM_ROWS, {f32, f32}, {{many, 17}}, {many, 1});
  rows(QUERN_OP_MATMUL, {f32, f32, f32}, {{many, 8}, {5, 8}}, {many, 5});
  rows(QUERN_OP_MATMUL, {f16, f16, f32}, {{many, 8}, {5, 8}}, {many, 5});
  rows(QUERN_OP_MATMUL, {f32, QUERN_Q4_0, f32}, {{many, 32}, {5, 32}}, {many, 5});
  rows(QUERN_OP_MATMUL, {f32, QUERN_Q4_0, f32}, {{1, 32}, {many, 32}}, {1, many});
  Case batches =
      resized(like(sink, QUERN_OP_MATMUL, {f32, f32, f32}), Profile::full, {{many, 2, 8}, {many, 3, 8}}, {many, 2, 3}, DataKind::gaussian);
  batches.inputs[1].kind = QUERN_VALUE_INPUT;
  sink.add(std::move(batches));
}

/// Elementwise and by rows, more than 2^31 elements each.
void huge_rows(CaseSink& sink) {
  const auto rows = [&](std::uint32_t op, const std::vector<quern_dtype>& dtypes, const std::vector<Dims>& inputs, const Dims& y,
                        std::uint32_t row_inputs) {
    Case c = resized(like(sink, op, dtypes), Profile::huge, inputs, y, DataKind::gaussian);
    c.reference = some_rows(c.reference, row_inputs);
    return c;
  };
  constexpr quern_dtype f16 = QUERN_F16, none = QUERN_DTYPE_NONE;
  const Dims wide = {2097153, 1025}, long_rows = {64, 512, 131072};
  sink.add(rows(QUERN_OP_CAST, {f16, QUERN_BF16}, {wide}, wide, 1));
  sink.add(rows(QUERN_OP_SILU, {f16, f16}, {wide}, wide, 1));
  Case sum = rows(QUERN_OP_ADD, {f16, f16, f16}, {wide, {1025}}, wide, 1);
  sum.outputs[0].in_place_of = 0;
  sink.add(std::move(sum));
  sink.add(rows(QUERN_OP_RMS_NORM, {f16, QUERN_F32, f16}, {{4194305, 513}, {513}}, {4194305, 513}, 1));
  sink.add(rows(QUERN_OP_SOFTMAX, {f16, none, none, f16}, {long_rows, {}, {}}, long_rows,
                1));  // the scores of a long prompt: 2^32 elements
}

/// An output, and weights, of more than 2^31 elements.
void huge_products(CaseSink& sink) {
  Case c = resized(like(sink, QUERN_OP_MATMUL, {QUERN_F16, QUERN_F16, QUERN_F16}), Profile::huge, {{65537, 32}, {32769, 32}},
                   {65537, 32769}, DataKind::gaussian);
  c.fast_conversions = 0;
  sink.add(std::move(c));
  for (const quern_dtype weights : {QUERN_Q4_0, QUERN_Q8_0, QUERN_F16})
    for (const std::int64_t m : {1, 7})
      sink.add(resized(like(sink, QUERN_OP_MATMUL, {QUERN_F32, weights, QUERN_F32}), Profile::huge, {{m, 32800}, {65537, 32800}},
                       {m, 65537}, DataKind::gaussian));
}

/// Rows of a table of more than 4 GiB, read and written.
void huge_tables(CaseSink& sink) {
  const Dims table = {many, 32768};
  const std::vector<std::int64_t> at = {0, 65536, 70000, 32768, 65535, 32767, 1};
  const auto index = [&] { return given(input(QUERN_I32, {static_cast<std::int64_t>(at.size())}), "both_ends", at); };
  const Dims chosen = {static_cast<std::int64_t>(at.size()), 32768};
  Case get = like(sink, QUERN_OP_GET_ROWS, {QUERN_F16, QUERN_I32, QUERN_F16});
  get = resized(get, Profile::huge, {table, {1}}, chosen, DataKind::gaussian);
  get.inputs[1] = index();
  sink.add(std::move(get));
  Case set = like(sink, QUERN_OP_SET_ROWS, {QUERN_F16, QUERN_I32, QUERN_F16});
  set = resized(set, Profile::huge, {chosen, {1}}, table, DataKind::gaussian);
  set.inputs[1] = index();
  set.outputs = {state(QUERN_F16, table)};
  set.reference = [at](const ReferenceCall& call, Expected& expected) {
    const auto before = call.states[0].bytes(), rows = call.inputs[0].bytes();
    ExpectedOutput& y = expected.outputs[0];
    y.rule = Rule::bits;
    y.bytes.assign(before.begin(), before.end());
    const std::uint64_t row = rows.size() / at.size();
    for (std::size_t r = 0; r < at.size(); ++r)
      std::memcpy(y.bytes.data() + static_cast<std::uint64_t>(at[r]) * row, rows.data() + r * row, row);
  };
  sink.add(std::move(set));
}

/// Rows that lie more than 2^31 bytes apart, of what is read and of what is written.
void huge_strides(CaseSink& sink) {
  constexpr std::int64_t gap = (std::int64_t{1} << 30) + 5;
  const Case copy = resized(like(sink, QUERN_OP_COPY, {QUERN_F16, QUERN_F16}), Profile::huge, {{2, 33}}, {2, 33}, DataKind::exponents);
  for (const bool reads : {true, false}) {
    Case c = copy;
    (reads ? c.inputs[0] : c.outputs[0]).layout = rows_apart(gap);
    sink.add(std::move(c));
  }
  Case product = resized(like(sink, QUERN_OP_MATMUL, {QUERN_F16, QUERN_F16, QUERN_F32}), Profile::huge, {{2, 40}, {17, 40}}, {2, 17},
                         DataKind::gaussian);
  product.inputs[0].layout = rows_apart(gap);
  product.fast_conversions = 0;
  sink.add(std::move(product));
}

void generate(CaseSink& sink) {
  many_rows(sink);
  huge_rows(sink);
  huge_products(sink);
  huge_tables(sink);
  huge_strides(sink);
}

}  // namespace

extern const Family large_family;
const Family large_family = {"large", generate};

}  // namespace quern::conformance
