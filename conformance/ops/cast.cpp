// cast: floats to nearest even, block formats decoded exactly, f32 encoded by the rule of the format.
//
// Encoding is judged as a property: how far decode(encode(x)) may be from x. Codes are never compared, since ties may fall either way.
#include "data/float_codes.hpp"
#include "ops/encode_bound.hpp"
#include "ops/family.hpp"

#include <cstring>
#include <limits>

namespace quern::conformance {
namespace {

void reference_to_plain(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  // What is not exact in f32 and stored narrower may be rounded in f32 first: half an ulp of f32 beside that of the store.
  y.rule = !decodes_exactly(x.dtype()) && to != QUERN_F32 ? Rule::bounded : Rule::value;
  y.zero_sign = is_float(x.dtype()) && is_float(to);
  for (double v : x.values()) {
    if (to == QUERN_I32) v = std::nearbyint(v);
    y.add(v, half_ulp_f32(v));
  }
}

void reference_encode(const ReferenceCall& call, Expected& expected) {
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.value = call.inputs[0].values();
  append_encode_bounds(call.what.outputs[0].dtype, y.value.data(), call.inputs[0].count(), y.bound);
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
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set(i, static_cast<double>(random.below(static_cast<std::uint64_t>(i), 1 << 25)) - (1 << 24));
}
void fill_halves(const Tensor& x, const CounterRandom& random) {  // ties and near ties of the rounding to integers
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set(i, (static_cast<double>(random.below(static_cast<std::uint64_t>(i), 2000)) - 1000.0) / 4.0);
}

/// Every pattern of 16 bits, as the dtype of x.
void fill_patterns(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(x.bytes().data() + 2 * i, &bits, sizeof bits);
  }
}
/// f32 numbers around each number of a narrower dtype: itself, the middle to the next one, and the f32 beside that middle on either side.
template <double value(std::uint16_t)>
void fill_middles(const Tensor& x, const CounterRandom&) {
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i / 4);
    const double here = value(bits), next = value(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>(std::isfinite(here) && std::isfinite(next) ? (here + next) / 2 : here);
    const float infinity = std::numeric_limits<float>::infinity();
    x.set(i, i % 4 == 0 ? here : static_cast<double>(i % 4 == 1 ? middle : std::nextafter(middle, i % 4 == 2 ? infinity : -infinity)));
  }
}

void exhaustive(CaseSink& sink) {
  for (const quern_dtype from : {QUERN_F16, QUERN_BF16})
    for (const quern_dtype to : float_dtypes)
      add(sink, Profile::quick, filled(input(from, {256, 256}), "every_pattern", fill_patterns), output(to, {256, 256}),
          reference_to_plain);
  add(sink, Profile::quick, filled(input(QUERN_F32, {512, 512}), "around_every_f16", fill_middles<f16_value>),
      output(QUERN_F16, {512, 512}), reference_to_plain);
  add(sink, Profile::quick, filled(input(QUERN_F32, {512, 512}), "around_every_bf16", fill_middles<bf16_value>),
      output(QUERN_BF16, {512, 512}), reference_to_plain);
}

void layouts(CaseSink& sink) {
  const Dims dims = {3, 5, 33};
  for (const quern_dtype from : float_dtypes)
    for (const quern_dtype to : float_dtypes)
      for (const Layout& layout : {ordered({1, 0, 2}), ordered({0, 2, 1}), ordered({2, 1, 0}), rows_apart(7)}) {
        add(sink, Profile::full, input(from, dims, DataKind::exponents, layout), output(to, dims), reference_to_plain);
        add(sink, Profile::full, input(from, dims, DataKind::exponents), output(to, dims, layout), reference_to_plain);
      }
  for (const quern_dtype dtype : block_dtypes) {
    const Dims rows = {3, 5, 2 * unit_of(dtype).elements};
    for (const Layout& layout : {ordered({1, 0, 2}), rows_apart(1), shifted()}) {
      for (const quern_dtype to : float_dtypes)
        add(sink, Profile::full, input(dtype, rows, DataKind::gaussian, layout), output(to, rows), reference_to_plain);
      add(sink, Profile::full, input(dtype, rows), output(QUERN_F32, rows, layout), reference_to_plain);
      add(sink, Profile::full, input(QUERN_F32, rows, DataKind::gaussian, layout), output(dtype, rows), reference_encode);
      add(sink, Profile::full, input(QUERN_F32, rows), output(dtype, rows, layout), reference_encode);
    }
  }
}

void generate(CaseSink& sink) {
  exhaustive(sink);
  layouts(sink);
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
          add(sink, from == QUERN_F32 && (block == 32 || dims[0] != 64) ? Profile::quick : Profile::full, input(from, dims, data),
              output(dtype, dims),
              reference_encode);  // encoders of K-quants search, which takes seconds for many blocks
    }
  }
}

}  // namespace

extern const Family cast_family;
const Family cast_family = {"cast", generate};

}  // namespace quern::conformance
