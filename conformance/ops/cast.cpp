// cast: floats to nearest even, block formats decoded exactly, f32 encoded by the rule of the format.
//
// Encoding is judged as a property: how far decode(encode(x)) may be from x. Codes are never compared, since ties may fall either way.
#include "data/block_format.hpp"
#include "ops/family.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

bool is_offset(quern_dtype dtype) {
  const quern_format* f = format_of(dtype);
  return f != nullptr && (f->formula == QUERN_FORMULA_OFFSET || f->formula == QUERN_FORMULA_SUPER_OFFSET);
}

void reference_to_plain(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  // An offset format stored narrower than f32 may be rounded in f32 first: half an ulp of f32 beside that of the store.
  y.rule = is_offset(x.dtype()) && to != QUERN_F32 ? Rule::bounded : Rule::value;
  y.zero_sign = is_float(x.dtype()) && is_float(to);
  for (double v : x.values()) {
    if (to == QUERN_I32) v = std::nearbyint(v);
    y.add(v, half_ulp_f32(v));
  }
}

struct Range {
  double low = 0, high = 0;
  double size() const { return std::max(-low, high); }
};

/// Step and offsets that the rule of a format gives a group, from the data alone; see `encode_bound`.
struct GroupRange {
  std::vector<Range> groups;
  Range block;
};
GroupRange ranges(const quern_format& format, const double* x) {
  GroupRange r;
  for (std::uint32_t i = 0; i < format.block_elements; ++i) {
    if (i % format.group_elements == 0) r.groups.push_back({x[i], x[i]});
    Range& g = r.groups.back();
    g.low = std::min(g.low, x[i]);
    g.high = std::max(g.high, x[i]);
  }
  return r;
}

std::uint32_t code_bits(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_Q4_0: case QUERN_Q4_1: case QUERN_Q4_K: return 4;
    case QUERN_Q5_0: case QUERN_Q5_1: case QUERN_Q5_K: return 5;
    case QUERN_Q6_K: return 6;
    default: return 8;
  }
}

/// How far decode(encode(x)) may be from x.
///   symmetric  step D = |max| / 2^(b-1) (q8_0: / 127); half of it with 2^-6 for codes taken by an unrounded scale, the scale's f16
///              rounding (2^-11 of x and, for subnormal scales, 2^-25 a code), and what is beyond the last code on the side that has
///              one code less
///   offset     step (max - min) / (2^b - 1), and the f16 roundings of scale and min
///   super      the group's step as above; its scale and min are themselves rounded to 6 bits (q6_k: 8) of the block's largest. All
///              of it twice: encoders search for the least square error, which may move a group's scale by more than a half step
double encode_bound(quern_dtype dtype, const GroupRange& r, std::size_t g, double x) {
  const quern_format& format = *format_of(dtype);
  const double half = std::ldexp(1.0, static_cast<int>(code_bits(dtype)) - 1), codes = 2 * half - 1;
  const Range& range = r.groups[g];
  const auto largest = [&](const auto& of) {
    double most = 0;
    for (const Range& each : r.groups) most = std::max(most, of(each));
    return most;
  };
  const auto clipped = [&](double step) { return std::max((0.5 + 0x1p-6) * step, std::fabs(x) - (half - 1) * step); };
  const double f16_scale = 0x1p-11 * std::fabs(x) + half * 0x1p-25;
  switch (format.formula) {
    case QUERN_FORMULA_SYMMETRIC:
      return dtype == QUERN_Q8_0 ? (0.5 + 0x1p-6) * range.size() / 127 + f16_scale : clipped(range.size() / half) + f16_scale;
    case QUERN_FORMULA_OFFSET: {
      const double width = range.high - range.low;
      return (0.5 + 0x1p-6) * width / codes + 0x1p-11 * (width + range.size()) + codes * 0x1p-25;
    }
    case QUERN_FORMULA_SUPER_SYMMETRIC: {
      const double scale_step = largest([&](const Range& e) { return e.size() / half; }) / 127;
      return 2 * (clipped(range.size() / half) + half * scale_step / 2 + f16_scale);
    }
    default: {
      const double scale_step = largest([&](const Range& e) { return (e.high - e.low) / codes; }) / 63;
      const double min_step = largest([](const Range& e) { return -e.low; }) / 63;
      return 2 * ((range.high - range.low) / codes / 2 + codes * scale_step / 2 + min_step / 2 + f16_scale + 0x1p-11 * range.size());
    }
  }
}

void reference_encode(const ReferenceCall& call, Expected& expected) {
  const std::vector<double> x = call.inputs[0].values();
  const quern_dtype to = call.what.outputs[0].dtype;
  const quern_format& format = *format_of(to);
  const bool from_zero = format.formula != QUERN_FORMULA_OFFSET;  // a group's range holds 0, except where a min is stored as it is
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (std::size_t b = 0; b < x.size(); b += format.block_elements) {
    GroupRange r = ranges(format, x.data() + b);
    if (from_zero)
      for (Range& g : r.groups) g = {std::min(g.low, 0.0), std::max(g.high, 0.0)};
    for (std::size_t i = 0; i < format.block_elements; ++i) y.add(x[b + i], encode_bound(to, r, i / format.group_elements, x[b + i]));
  }
}

void add(CaseSink& sink, Profile profile, ValueSpec x, ValueSpec y, ReferenceFunction reference) {
  Case c;
  c.group = "copy";
  c.op = QUERN_OP_CAST;
  c.profile = profile;
  c.level = level_basic;
  c.inputs = {std::move(x)};
  c.outputs = {std::move(y)};
  c.reference = reference;
  sink.add(std::move(c));
}

void fill_integers(const Tensor& x, const CounterRandom& random) {  // all of them f32 has
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, static_cast<double>(random.below(static_cast<std::uint64_t>(i), 1 << 25)) - (1 << 24));
}
void fill_halves(const Tensor& x, const CounterRandom& random) {  // ties and near ties of the rounding to integers
  for (std::int64_t i = 0; i < x.count(); ++i) x.set(i, (static_cast<double>(random.below(static_cast<std::uint64_t>(i), 2000)) - 1000.0) / 4.0);
}

void generate(CaseSink& sink) {
  const Dims shapes[] = {{1}, {33}, {5, 31}, {3, 4, 65}, {64, 256}};
  for (const quern_dtype from : float_dtypes)
    for (const quern_dtype to : float_dtypes)
      for (const Dims& dims : shapes)
        for (const DataKind data : {DataKind::specials, DataKind::exponents}) {
          add(sink, Profile::quick, input(from, dims, data), output(to, dims), reference_to_plain);
          if (dims.size() < 2) continue;
          add(sink, Profile::quick, input(from, dims, data, rows_apart(3)), output(to, dims), reference_to_plain);
          add(sink, Profile::full, input(from, dims, data, shifted()), output(to, dims, rows_apart(7)), reference_to_plain);
        }
  for (const quern_dtype to : float_dtypes)
    add(sink, Profile::quick, filled(input(QUERN_I32, {7, 33}), "up_to_2_24", fill_integers), output(to, {7, 33}), reference_to_plain);
  for (const quern_dtype from : float_dtypes)
    add(sink, Profile::quick, filled(input(from, {7, 33}), "quarters", fill_halves), output(QUERN_I32, {7, 33}), reference_to_plain);
  for (const quern_dtype dtype : block_dtypes) {
    const std::int64_t block = unit_of(dtype).elements;
    for (const Dims& dims : {Dims{block}, Dims{5, 3 * block}, Dims{64, 8 * block}}) {
      for (const quern_dtype to : float_dtypes)
        for (const DataKind data : {DataKind::specials, DataKind::gaussian, DataKind::positive})
          add(sink, Profile::quick, input(dtype, dims, data), output(to, dims), reference_to_plain);
      for (const quern_dtype from : float_dtypes)
        for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy, DataKind::one_hot, DataKind::uniform})
          add(sink, from == QUERN_F32 ? Profile::quick : Profile::full, input(from, dims, data), output(dtype, dims), reference_encode);
    }
  }
}

}  // namespace

extern const Family cast_family;
const Family cast_family = {"cast", generate};

}  // namespace quern::conformance
