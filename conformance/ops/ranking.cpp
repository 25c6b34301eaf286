// argmax top_k sort: exact. Ties go to the lowest index, NaN ranks as -inf (and comes out as it was), -0 equals 0.
#include "ops/make_case.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Indices of a row, in the order that the op gives.
std::vector<std::int64_t> ranked(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::int64_t i) {
    return std::isnan(row[static_cast<std::size_t>(i)]) ? -infinity : row[static_cast<std::size_t>(i)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return descending ? key(a) > key(b) : key(a) < key(b); });
  return order;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const bool argmax = call.what.op == QUERN_OP_ARGMAX;
  const bool descending = call.what.op != QUERN_OP_SORT || call.attribute(QUERN_KEY_DESCENDING, 1) != 0;
  const std::int64_t n = x.dim_from_end(0);
  const auto kept = static_cast<std::size_t>(argmax                          ? 1
                                             : call.what.op == QUERN_OP_SORT ? n
                                                                             : static_cast<std::int64_t>(call.attribute(QUERN_KEY_K, 0)));
  ExpectedOutput& index = expected.outputs[argmax ? 0 : 1];
  index.rule = Rule::value;  // an i32 of less than 2^24
  if (!argmax) {
    expected.outputs[0].rule = Rule::value;
    expected.outputs[0].zero_sign = true;
  }
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t first = 0; first < x.count(); first += n) {
    x.read(first, n, row.data());
    const std::vector<std::int64_t> order = ranked(row, descending);
    for (std::size_t i = 0; i < kept; ++i) {
      index.add(static_cast<double>(order[i]), 0);
      if (!argmax) expected.outputs[0].add(row[static_cast<std::size_t>(order[i])], 0);
    }
  }
}

/// Row 0 all equal, 1 -inf and NaN alone, 2 NaN first, 3 two largest, the second at the end, 4 infinities of both signs twice, 5 zeros of
/// both signs, 6 falling, 7 rising, 8 all -inf, 9 the largest in the middle; then few different numbers.
void fill_edge_rows(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    double v = std::round(2.0 * random.gaussian(static_cast<std::uint64_t>(i)));
    if (row == 0) v = -1.5;
    if (row == 1) v = column % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : -infinity;
    if (row == 2 && column == 0) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 3) v = column == n / 3 || column == n - 1 ? 100.0 : v;
    if (row == 4) v = column % 7 == 3 ? infinity : column % 7 == 5 ? -infinity : v;
    if (row == 5) v = column % 3 == 0 ? -0.0 : 0.0;
    if (row == 6) v = -static_cast<double>(column);
    if (row == 7) v = static_cast<double>(column);
    if (row == 8) v = -infinity;
    if (row == 9) v = column == n / 2 ? 60000.0 : v;
    x.set(i, v);
  }
}

constexpr OpUnderTest argmax_op{QUERN_OP_ARGMAX, "sampling", level_inference, reference};
constexpr OpUnderTest top_k_op{QUERN_OP_TOP_K, "sampling", level_inference, reference};
constexpr OpUnderTest sort_op{QUERN_OP_SORT, "sampling", level_all, reference};

void add(CaseSink& sink, const OpUnderTest& what, Profile profile, ValueSpec x, std::vector<Attribute> attributes, const Layout& to = {}) {
  Dims dims = x.dims;
  std::vector<ValueSpec> outputs;
  if (what.op == QUERN_OP_ARGMAX) {
    dims.pop_back();
    outputs = {output(QUERN_I32, dims, to)};
  } else {
    if (what.op == QUERN_OP_TOP_K) dims.back() = static_cast<std::int64_t>(attributes[0].value);
    outputs = {output(QUERN_F32, dims, to), output(QUERN_I32, dims, to)};
  }
  sink.add(make_case(what, profile, {std::move(x)}, std::move(outputs), std::move(attributes)));
}

/// One setting of one op over shapes, data and layouts; k of top_k is at most `least`.
void generate_op(CaseSink& sink, const OpUnderTest& what, quern_dtype dtype, const std::vector<Attribute>& attributes, std::int64_t least) {
  for (const std::int64_t n : {1, 2, 7, 31, 33, 64, 257, 1025, 4099}) {
    if (n < least) continue;
    add(sink, what, n <= 1025 ? Profile::quick : Profile::full, filled(input(dtype, {13, n}), "edge_rows", fill_edge_rows), attributes);
    for (const DataKind data : {DataKind::specials, DataKind::exponents, DataKind::integers})
      add(sink, what, (n == 33 || n == 257) && data != DataKind::exponents ? Profile::quick : Profile::full, input(dtype, {3, n}, data),
          attributes);
    if (n != 33 && n != 257) continue;
    add(sink, what, Profile::quick, input(dtype, {2, 3, n}, DataKind::integers, rows_apart(3)), attributes);
    add(sink, what, Profile::full, input(dtype, {2, 3, n}, DataKind::integers, ordered({1, 0, 2})), attributes, rows_apart(1));
    add(sink, what, Profile::full, input(dtype, {2, 3, n}, DataKind::integers, ordered({0, 2, 1})), attributes);
    add(sink, what, Profile::full, input(dtype, {2, 3, n}, DataKind::integers, shifted()), attributes, shifted());
    add(sink, what, Profile::quick, input(dtype, {n}, DataKind::integers), attributes);
  }
  for (const std::int64_t n : {32000, 49152, 151936})
    for (const DataKind data : {DataKind::gaussian, DataKind::integers})
      add(sink, what, n == 151936 && data == DataKind::integers ? Profile::quick : Profile::full, input(dtype, {2, n}, data), attributes);
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) generate_op(sink, argmax_op, dtype, {}, 1);
  for (const double k : {1.0, 2.0, 7.0, 40.0, 256.0})
    generate_op(sink, top_k_op, QUERN_F32, {{QUERN_KEY_K, k}}, static_cast<std::int64_t>(k));
  add(sink, top_k_op, Profile::quick, input(QUERN_F32, {5, 31}, DataKind::integers), {{QUERN_KEY_K, 31}});  // k is the whole row
  for (const double descending : {1.0, 0.0})
    generate_op(sink, sort_op, QUERN_F32, unless_default({{{QUERN_KEY_DESCENDING, descending}, 1}}), 1);
}

}  // namespace

extern const Family ranking_family;
const Family ranking_family = {"ranking", generate};

}  // namespace quern::conformance
