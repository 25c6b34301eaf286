// dropout: y = x / (1 - p) where the uniform number of the element is at least p, else 0. The numbers are philox4x32-10 (Salmon et al.
// 2011) of counter (i / 4, step, salt, 0) and key seed, word i % 4, as (w + 0.5) / 2^32 rounded to f32.
//
// Which elements stay is exact; those that do are within a division of 2.5 ulp and the rounding of 1 - p. What is dropped is 0, NaN or not.
#include "ops/given.hpp"

#include <array>

namespace quern::conformance {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xd2511f53} * counter[0], right = std::uint64_t{0xcd9e8d57} * counter[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    counter = {high(right) ^ counter[1] ^ key0, static_cast<std::uint32_t>(right), high(left) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(left)};
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
  return counter;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &seed = call.inputs[1];
  const auto p = static_cast<float>(call.attribute(QUERN_KEY_P, 0));
  const auto step = static_cast<std::uint32_t>(static_cast<std::int32_t>(call.inputs[2].at(0)));
  const auto salt = static_cast<std::uint32_t>(call.attribute(QUERN_KEY_SALT, 0));
  const auto key0 = static_cast<std::uint32_t>(seed.at(0)), key1 = static_cast<std::uint32_t>(seed.at(1));
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  Words words{};
  for (std::int64_t i = 0; i < x.count(); ++i) {
    if (i % 4 == 0) words = philox({static_cast<std::uint32_t>(i / 4), step, salt, 0}, key0, key1);
    const auto uniform = static_cast<float>((static_cast<double>(words[static_cast<std::size_t>(i % 4)]) + 0.5) * 0x1p-32);
    const double r = uniform >= p ? x.at(i) / (1.0 - static_cast<double>(p)) : 0.0;
    y.add(r, r == 0.0 || !std::isfinite(r) || p == 0.0f ? 0.0 : 3.5 * ulp_f32(r) + narrow_store(call.what.outputs[0].dtype, r));
  }
}

void generate(CaseSink& sink) {
  const auto add = [&](Profile profile, quern_dtype dtype, Dims dims, double p, double salt, double step, std::vector<double> seed,
                       DataKind data, Layout layout = {}, Layout y_layout = {}) {
    Case c;
    c.group = "lora";
    c.op = QUERN_OP_DROPOUT;
    c.profile = profile;
    c.level = level_training;
    const std::string seeds =
        "seed" + std::to_string(static_cast<std::uint32_t>(seed[0])) + "_" + std::to_string(static_cast<std::uint32_t>(seed[1]));
    c.inputs = {input(dtype, dims, data, std::move(layout)), given(input(QUERN_U32, {2}), seeds, seed),
                number(QUERN_I32, step, "step" + std::to_string(static_cast<std::int64_t>(step)))};
    c.outputs = {output(dtype, dims, std::move(y_layout))};
    if (p != 0) c.attributes.push_back({QUERN_KEY_P, p});
    if (salt != 0) c.attributes.push_back({QUERN_KEY_SALT, salt});
    c.reference = reference;
    sink.add(std::move(c));
  };
  for (const quern_dtype dtype : float_dtypes) {
    for (const double p : {0.0, 0.0625, 0.25, 0.5, 0.9375})
      for (const Dims& dims : {Dims{1}, {3}, {5, 31}, {7, 65}, {3, 4, 129}, {64, 576}})
        for (const double step : {0.0, 1.0, 1000000.0})
          add(element_count(dims) < 2000 ? Profile::quick : Profile::full, dtype, dims, p, 0, step, {1234567, 89}, DataKind::gaussian);
    for (const double salt : {1.0, 7.0, 4294967295.0})
      for (const double step : {0.0, 5.0, 2147483647.0, -1.0})
        for (const std::vector<double>& seed : {std::vector<double>{0, 0}, {4294967295.0, 4294967295.0}, {1, 2}})
          add(salt == 7.0 ? Profile::quick : Profile::full, dtype, {9, 33}, 0.25, salt, step, seed, DataKind::gaussian);
    for (const DataKind data : {DataKind::exponents, DataKind::specials, DataKind::positive})
      add(Profile::quick, dtype, {9, 130}, 0.5, 0, 3, {5, 6}, data);
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
      add(Profile::quick, dtype, {6, 35}, 0.5, 0, 3, {5, 6}, DataKind::gaussian, layout);
      add(Profile::quick, dtype, {6, 35}, 0.5, 0, 3, {5, 6}, DataKind::gaussian, {}, layout);
    }
    add(Profile::full, dtype, {513, 1025}, 0.25, 0, 2, {11, 13}, DataKind::gaussian);
  }
}

}  // namespace

extern const Family dropout_family;
const Family dropout_family = {"dropout", generate};

}  // namespace quern::conformance
