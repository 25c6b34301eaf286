// get_rows get_rows_backward set_rows index_add take.
//
// get_rows decodes, with the bits of cast (ops/cast.cpp). An index out of range is a row of zeros and INDEX_RANGE. get_rows_backward and
// index_add add in f32 in the order of the index, so their f32 result is known bit for bit. Each addition is rounded from f64, which is
// innocuous (53 >= 2 * 24 + 2). A narrower table of index_add may be rounded at each addition. It is allowed u of its dtype times the
// sizes of the partial sums. set_rows rounds floats once. A block format is judged by how far decode(encode(x)) may be from x. Other
// rows keep their values. take stores elements as get_rows those of floats.
#include "ops/make_case.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

float sum_f32(float a, double b) { return static_cast<float>(static_cast<double>(a) + b); }

void get_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &table = call.inputs[0], &index = call.inputs[1];
  const quern_dtype to = call.what.outputs[0].dtype;
  const std::int64_t n = table.dim_from_end(0), rows = table.dim_from_end(1);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = !decodes_exactly(table.dtype()) && to != QUERN_F32 ? Rule::bounded
                                                              : Rule::value;  // what is not exact in f32 may be rounded there first
  y.zero_sign = is_float(table.dtype());
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto at = static_cast<std::int64_t>(index.at(t));
    if (at >= 0 && at < rows) table.read(at * n, n, row.data());
    else std::fill(row.begin(), row.end(), 0.0);
    for (const double v : row) y.add(v, half_ulp_f32(v));
  }
}

void get_integers(const ReferenceCall& call, Expected& expected) {  // i32 rows as they are: f32 would round them
  const Tensor &table = call.inputs[0], &index = call.inputs[1];
  const std::size_t n = static_cast<std::size_t>(table.dim_from_end(0)) * 4;
  std::vector<std::byte>& bytes = expected.outputs[0].bytes;
  expected.outputs[0].rule = Rule::bits;
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto at = static_cast<std::int64_t>(index.at(t));
    if (at < 0 || at >= table.dim_from_end(1)) bytes.resize(bytes.size() + n);
    else
      bytes.insert(bytes.end(), table.bytes().begin() + at * static_cast<std::int64_t>(n),
                   table.bytes().begin() + (at + 1) * static_cast<std::int64_t>(n));
  }
}

void take_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &index = call.inputs[1];
  const std::int64_t n = x.dim_from_end(0), rows = x.dim_from_end(1);
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::value;
  y.zero_sign = true;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < index.count(); ++j) {
      const auto from = static_cast<std::int64_t>(index.at(j));
      const double v = from >= 0 && from < n ? x.at(row * n + from) : 0.0;
      y.add(v, half_ulp_f32(v));
    }
}

void backward_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &dy = call.inputs[0], &index = call.inputs[1], &before = call.states[0];
  const ValueSpec& to = call.what.outputs[0];
  const std::int64_t n = dy.dim_from_end(0), rows = to.dims[0];
  const bool accumulate = call.attribute(QUERN_KEY_ACCUMULATE, 0) != 0;
  std::vector<float> sum(static_cast<std::size_t>(rows * n), 0.0f);
  if (accumulate)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<float>(before.at(static_cast<std::int64_t>(i)));
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto at = static_cast<std::int64_t>(index.at(t));
    if (at < 0 || at >= rows) continue;
    for (std::int64_t i = 0; i < n; ++i)
      sum[static_cast<std::size_t>(at * n + i)] = sum_f32(sum[static_cast<std::size_t>(at * n + i)], dy.at(t * n + i));
  }
  ExpectedOutput& dtable = expected.outputs[0];
  dtable.rule = Rule::value;
  dtable.value.assign(sum.begin(), sum.end());
}

void add_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &index = call.inputs[1], &before = call.states[0];
  const ValueSpec& to = call.what.outputs[0];
  const std::int64_t n = x.dim_from_end(0), rows = to.dims[0];
  const double u = to.dtype == QUERN_F16 ? u16 : to.dtype == QUERN_BF16 ? ub16 : 0.0;
  const double least = to.dtype == QUERN_F16 ? 0x1p-25 : 0x1p-134;  // half a subnormal's step
  ExpectedOutput& table = expected.outputs[0];
  table.rule = to.dtype == QUERN_F32 ? Rule::value : Rule::bounded;
  table.value = before.values();
  table.bound.assign(table.value.size(), 0.0);
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto at = static_cast<std::int64_t>(index.at(t));
    if (at < 0 || at >= rows) continue;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto place = static_cast<std::size_t>(at * n + i);
      table.value[place] = static_cast<double>(sum_f32(static_cast<float>(table.value[place]), x.at(t * n + i)));
      if (u > 0) table.bound[place] += u * 1.0625 * std::fabs(table.value[place]) + least;
    }
  }
}

/// How far decode(encode(x)) may be from x in a symmetric format: as in ops/cast.cpp, which derives it.
double encode_bound(quern_dtype dtype, double largest, double x) {
  if (dtype == QUERN_Q8_0) return (0.5 + 0x1p-6) * largest / 127 + 0x1p-11 * std::fabs(x) + 128 * 0x1p-25;
  const double step = largest / 8;  // q4_0: codes -8 .. 7, the sign of the scale is that of the largest
  return std::max((0.5 + 0x1p-6) * step, std::fabs(x) - 7 * step) + 0x1p-11 * std::fabs(x) + 8 * 0x1p-25;
}

void set_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &index = call.inputs[1], &before = call.states[0];
  const ValueSpec& to = call.what.outputs[0];
  const std::int64_t n = x.dim_from_end(0), rows = to.dims[0], block = unit_of(to.dtype).elements;
  ExpectedOutput& table = expected.outputs[0];
  table.rule = is_float(to.dtype) ? Rule::value : Rule::bounded;
  table.zero_sign = true;
  table.value = before.values();
  table.bound.assign(table.value.size(), 0.0);
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto at = static_cast<std::int64_t>(index.at(t));
    if (at < 0 || at >= rows) continue;
    for (std::int64_t first = 0; first < n; first += block) {
      double largest = 0;
      for (std::int64_t i = first; i < first + block; ++i) largest = std::max(largest, std::fabs(x.at(t * n + i)));
      for (std::int64_t i = first; i < first + block; ++i) {
        const auto place = static_cast<std::size_t>(at * n + i);
        table.value[place] = x.at(t * n + i);
        table.bound[place] = is_float(to.dtype) ? 0.0 : encode_bound(to.dtype, largest, x.at(t * n + i));
      }
    }
  }
}

using Fill = void (*)(const Tensor&, const CounterRandom&);

/// How an index tensor is made for a table of `rows`. turned: a permutation where `rows` is no multiple of `turn`, a prime.
constexpr std::int64_t turn = 4099;
enum class Index { any, duplicates, skips, stray, ends, turned };
const char* index_name(Index kind) {
  switch (kind) {
    case Index::any: return "any";
    case Index::duplicates: return "duplicates";
    case Index::skips: return "skips";
    case Index::stray: return "stray";
    case Index::ends: return "ends";
    case Index::turned: return "turned";
  }
  return "";
}

ValueSpec index_of(quern_dtype dtype, std::int64_t count, std::int64_t rows, Index kind) {
  return filled(input(dtype, {count}), std::string("index_") + index_name(kind),
                [rows, kind](const Tensor& t, const CounterRandom& random) {
                  for (std::int64_t i = 0; i < t.count(); ++i) {
                    const auto n = static_cast<std::uint64_t>(i);
                    auto value = static_cast<double>(random.below(n, static_cast<std::uint64_t>(rows)));
                    const std::uint64_t draw = random.stream(7).below(n, 4);
                    if (kind == Index::duplicates)
                      value = static_cast<double>(random.below(n, static_cast<std::uint64_t>(std::min<std::int64_t>(rows, 3))));
                    if (kind == Index::turned) value = static_cast<double>((i * turn + rows / 2) % rows);
                    if (kind == Index::ends) value = i % 2 == 0 ? static_cast<double>(rows - 1) : 0.0;
                    if (kind == Index::skips && (i == 0 || draw == 0)) value = -1;
                    if (kind == Index::stray && (i == 0 || draw == 0)) {
                      const double beyond[] = {static_cast<double>(rows), static_cast<double>(rows) + 1, 2147483647, -2, -2147483648};
                      const std::uint64_t which = random.stream(8).below(n, std::size(beyond));
                      value = beyond[which];
                      if (t.dtype() == QUERN_I64 && which == 2) value = 4294967296.0;  // 0 if only 32 bits of it were read
                    }
                    t.set(i, value);
                  }
                });
}

/// -1 is out of range like any other, except for the ops that skip it.
Case with_faults(Case c, Index kind) {
  const bool skips = c.op == QUERN_OP_SET_ROWS || c.op == QUERN_OP_INDEX_ADD;
  if (kind == Index::stray || (kind == Index::skips && !skips)) c.faults = QUERN_FAULT_INDEX_RANGE;
  return c;
}

constexpr OpUnderTest get_op{QUERN_OP_GET_ROWS, "rows", level_inference, get_reference};
constexpr OpUnderTest integers_op{QUERN_OP_GET_ROWS, "rows", level_inference, get_integers};
constexpr OpUnderTest backward_op{QUERN_OP_GET_ROWS_BACKWARD, "rows", level_training, backward_reference};
constexpr OpUnderTest set_op{QUERN_OP_SET_ROWS, "rows", level_inference, set_reference};
constexpr OpUnderTest take_op{QUERN_OP_TAKE, "rows", level_inference, take_reference};
constexpr OpUnderTest add_op{QUERN_OP_INDEX_ADD, "rows", level_all, add_reference};

constexpr quern_dtype index_dtypes[] = {QUERN_I32, QUERN_I64};

void generate_get(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec table, quern_dtype index, std::int64_t count, Index kind, ValueSpec y) {
    const ValueSpec rows = index_of(index, count, table.dims[0], kind);
    const OpUnderTest& what = table.dtype == QUERN_I32 ? integers_op : get_op;
    sink.add(with_faults(make_case(what, profile, {std::move(table), rows}, {std::move(y)}), kind));
  };
  for (const quern_dtype dtype : float_dtypes)
    for (const quern_dtype to : float_dtypes)
      for (const std::int64_t n : {1, 31, 33, 256}) {
        for (const quern_dtype index : index_dtypes)
          for (const Index kind : {Index::any, Index::duplicates, Index::stray, Index::skips}) {
            const bool quick = dtype == to || (kind == Index::any && index == QUERN_I32);
            add(quick && n != 33 ? Profile::quick : Profile::full, input(dtype, {17, n}, DataKind::specials), index, 9, kind,
                output(to, {9, n}));
          }
        add(Profile::full, input(dtype, {17, n}, DataKind::exponents, rows_apart(3)), QUERN_I32, 33, Index::stray,
            output(to, {33, n}, rows_apart(1)));
        add(Profile::full, input(dtype, {17, n}, DataKind::exponents, ordered({1, 0})), QUERN_I64, 33, Index::any,
            output(to, {33, n}, shifted()));
        add(Profile::full, constant(dtype, {17, n}, DataKind::exponents), QUERN_I32, 5, Index::any, output(to, {5, n}));
      }
  for (const quern_dtype dtype : block_dtypes) {
    const std::int64_t block = unit_of(dtype).elements;
    for (const quern_dtype to : float_dtypes)
      for (const std::int64_t n : {block, 3 * block, 5 * block, std::int64_t{2304}})
        for (const DataKind data : {DataKind::gaussian, DataKind::specials}) {
          if (to != QUERN_F32 && n != 3 * block) continue;
          add(to == QUERN_F32 ? Profile::quick : Profile::full, constant(dtype, {37, n}, data), QUERN_I32, 8, Index::any,
              output(to, {8, n}));
          add(n == 3 * block ? Profile::quick : Profile::full, input(dtype, {17, n}, data), QUERN_I64, 9, Index::stray, output(to, {9, n}));
          add(Profile::full, input(dtype, {17, n}, data, rows_apart(2)), QUERN_I32, 9, Index::duplicates,
              output(to, {9, n}, rows_apart(1)));
        }
    add(Profile::full, constant(dtype, {4099, 2304}), QUERN_I32, 129, Index::any, output(QUERN_F32, {129, 2304}));
  }
  for (const Index kind : {Index::any, Index::stray}) {
    add(Profile::quick, input(QUERN_I32, {9, 5}), QUERN_I32, 7, kind, output(QUERN_I32, {7, 5}));
    add(Profile::quick,
        filled(input(QUERN_I32, {9, 33}), "all_bits",
               [](const Tensor& t, const CounterRandom& random) {
                 for (std::int64_t i = 0; i < t.count(); ++i)
                   t.set(i, static_cast<double>(static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)))));
               }),
        QUERN_I64, 7, kind, output(QUERN_I32, {7, 33}));
  }
  for (const quern_dtype index : index_dtypes) {
    add(Profile::quick, input(QUERN_F32, {1, 3}), index, 4, Index::ends, output(QUERN_F32, {4, 3}));
    add(Profile::quick, input(QUERN_F32, {5, 3}), index, 0, Index::any, output(QUERN_F32, {0, 3}));
    add(Profile::quick, input(QUERN_F16, {70000, 31}), index, 5, Index::ends, output(QUERN_F32, {5, 31}));
    add(Profile::full, input(QUERN_F32, {70000, 33}), index, 513, Index::any, output(QUERN_F32, {513, 33}));
  }
  add(Profile::full, constant(QUERN_Q8_0, {49152, 576}), QUERN_I32, 17, Index::any, output(QUERN_F32, {17, 576}));
}

void generate_backward(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec dy, quern_dtype index, Index kind, ValueSpec dtable) {
    const bool accumulate = dtable.kind == QUERN_VALUE_STATE;
    const ValueSpec rows = index_of(index, dy.dims[0], dtable.dims[0], kind);
    sink.add(with_faults(make_case(backward_op, profile, {std::move(dy), rows}, {std::move(dtable)},
                                   unless_default({{{QUERN_KEY_ACCUMULATE, accumulate ? 1.0 : 0.0}, 0}})),
                         kind));
  };
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t n : {1, 31, 33, 256, 1025})
      for (const Index kind : {Index::any, Index::duplicates, Index::stray, Index::skips})
        for (const quern_dtype index : index_dtypes) {
          const Profile profile = n < 1025 && (index == QUERN_I32 || n == 31) ? Profile::quick : Profile::full;
          add(profile, input(dtype, {13, n}), index, kind, output(dtype, {17, n}));
          add(profile, input(dtype, {13, n}, DataKind::exponents), index, kind, state(dtype, {5, n}, DataKind::exponents));
          if (index != QUERN_I32 || (kind != Index::any && kind != Index::duplicates)) continue;
          add(Profile::full, input(dtype, {65, n}, DataKind::heavy, rows_apart(3)), index, kind, output(dtype, {17, n}, rows_apart(1)));
          add(Profile::full, input(dtype, {65, n}, DataKind::positive), index, kind,
              state(dtype, {17, n}, DataKind::positive, rows_apart(2)));
        }
  for (const quern_dtype dtype : {QUERN_F16, QUERN_BF16}) {  // one rounding at the store: 200 small ones onto one large, lost one by one
    add(Profile::quick, input(dtype, {600, 33}, DataKind::positive), QUERN_I32, Index::duplicates, output(dtype, {3, 33}));
    add(Profile::quick, input(dtype, {5, 33}), QUERN_I32, Index::any, output(QUERN_F32, {7, 33}));
    add(Profile::quick, input(QUERN_F32, {5, 33}), QUERN_I32, Index::any, output(dtype, {7, 33}));
  }
  add(Profile::quick, input(QUERN_F32, {5, 3}), QUERN_I32, Index::ends, output(QUERN_F32, {70000, 3}));
  add(Profile::full, input(QUERN_F32, {2048, 33}), QUERN_I64, Index::any, output(QUERN_F32, {70000, 33}));
  add(Profile::full, input(QUERN_F32, {16384, 3}), QUERN_I32, Index::any, output(QUERN_F32, {150000, 3}));  // rows of a micro-batch
  add(Profile::full, input(QUERN_F32, {16384, 3}), QUERN_I32, Index::any, output(QUERN_F32, {700, 3}));     // each row some 23 times
  add(Profile::quick, input(QUERN_F32, {0, 3}), QUERN_I32, Index::any, output(QUERN_F32, {4, 3}));          // zeros
}

void generate_writes(CaseSink& sink, const OpUnderTest& what, std::vector<quern_dtype> tables) {
  const bool sets = what.op == QUERN_OP_SET_ROWS;
  const auto add = [&](Profile profile, ValueSpec x, quern_dtype index, Index kind, ValueSpec table) {
    const ValueSpec rows = index_of(index, x.dims[0], table.dims[0], kind);
    sink.add(with_faults(make_case(what, profile, {std::move(x), rows}, {std::move(table)}), kind));
  };
  for (const quern_dtype from : float_dtypes)
    for (const quern_dtype to : tables) {
      const std::int64_t block = unit_of(to).elements;
      for (const std::int64_t n : {std::int64_t{1}, std::int64_t{31}, std::int64_t{33}, std::int64_t{256}, 3 * block + 256}) {
        if (n % block != 0) continue;
        for (const Index kind : {Index::any, Index::duplicates, Index::stray, Index::skips})
          for (const quern_dtype index : index_dtypes) {
            const bool quick = (from == to || block > 1) && (index == QUERN_I32 || kind == Index::stray) && n != 33;
            const DataKind data = sets && is_float(to) ? DataKind::specials : DataKind::heavy;
            add(quick ? Profile::quick : Profile::full, input(from, {13, n}, data), index, kind, state(to, {11, n}, DataKind::gaussian));
            if (index == QUERN_I32 && (kind == Index::any || kind == Index::duplicates))
              add(Profile::full, input(from, {33, n}, DataKind::exponents, rows_apart(3)), index, kind,
                  state(to, {70, n}, DataKind::gaussian, rows_apart(1)));
          }
      }
    }
  for (const quern_dtype to : tables) {
    const std::int64_t n = 2 * unit_of(to).elements;
    add(Profile::quick, input(QUERN_F32, {3, n}), QUERN_I64, Index::ends, state(to, {is_float(to) ? 70000 : 2100, n}));
    add(Profile::quick, input(QUERN_F32, {0, n}), QUERN_I32, Index::any, state(to, {4, n}));
    add(Profile::full, input(QUERN_F32, {4, n}, DataKind::one_hot), QUERN_I32, Index::any, state(to, {1, n}));
  }
}

void generate_take(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec x, quern_dtype index, std::int64_t count, Index kind, ValueSpec y) {
    const ValueSpec from = index_of(index, count, x.dims[1], kind);
    sink.add(with_faults(make_case(take_op, profile, {std::move(x), from}, {std::move(y)}), kind));
  };
  for (const quern_dtype dtype : float_dtypes) {
    for (const quern_dtype to : float_dtypes)
      for (const std::int64_t n : {1, 31, 33, 256})
        for (const quern_dtype index : index_dtypes)
          for (const Index kind : {Index::any, Index::turned, Index::stray, Index::skips}) {
            const bool quick = dtype == to && (index == QUERN_I32 || kind == Index::stray) && n != 33;
            add(quick ? Profile::quick : Profile::full, input(dtype, {5, n}, DataKind::specials), index, n, kind, output(to, {5, n}));
          }
    add(Profile::quick, input(dtype, {5, 33}, DataKind::exponents, rows_apart(3)), QUERN_I32, 70, Index::duplicates,
        output(dtype, {5, 70}, rows_apart(1)));
    add(Profile::quick, input(dtype, {5, 33}, DataKind::exponents, ordered({1, 0})), QUERN_I32, 17, Index::any,
        output(dtype, {5, 17}, shifted()));
    add(Profile::full, input(dtype, {5, 33}, DataKind::exponents), QUERN_I64, 17, Index::stray, output(dtype, {5, 17}, ordered({1, 0})));
    for (const std::int64_t n : {2047, 2048, 2049, 4096, 11008})  // parts of a row
      for (const std::int64_t rows : {1, 3})
        add(dtype == QUERN_F32 && rows == 1 ? Profile::quick : Profile::full, input(dtype, {rows, n}), QUERN_I32, n, Index::turned,
            output(dtype, {rows, n}));
  }
  add(Profile::quick, input(QUERN_F32, {3, 2304}), QUERN_I32, 2304, Index::stray, output(QUERN_F32, {3, 2304}));
  add(Profile::quick, input(QUERN_F32, {3, 70000}), QUERN_I64, 4, Index::ends, output(QUERN_F32, {3, 4}));
  add(Profile::quick, input(QUERN_F32, {0, 7}), QUERN_I32, 7, Index::any, output(QUERN_F32, {0, 7}));
  add(Profile::quick, input(QUERN_F32, {3, 7}), QUERN_I32, 0, Index::any, output(QUERN_F32, {3, 0}));
  add(Profile::full, input(QUERN_F32, {513, 4096}), QUERN_I32, 4096, Index::turned, output(QUERN_F32, {513, 4096}));
}

void generate(CaseSink& sink) {
  generate_get(sink);
  generate_take(sink);
  generate_backward(sink);
  generate_writes(sink, set_op, {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0});
  generate_writes(sink, add_op, {QUERN_F32, QUERN_F16, QUERN_BF16});
}

}  // namespace

extern const Family rows_family;
const Family rows_family = {"rows", generate};

}  // namespace quern::conformance
