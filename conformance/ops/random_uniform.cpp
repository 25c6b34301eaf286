// random_uniform: the numbers that OPS.md specifies, rounded to f32: exact.
#include "ops/make_case.hpp"
#include "ops/random_uniform_reference.hpp"

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(call.inputs[0].at(0)),
                                            static_cast<std::uint32_t>(call.inputs[0].at(1))};
  const auto step = static_cast<std::uint32_t>(static_cast<std::int32_t>(call.inputs[1].at(0)));
  const auto salt = static_cast<std::uint32_t>(call.attribute(QUERN_KEY_SALT, 0));
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::value;
  for (std::int64_t i = 0; i < element_count(call.what.outputs[0].dims); ++i)
    y.add(unit_interval(philox4x32_10({static_cast<std::uint32_t>(i / 4), step, salt, 0}, key)[static_cast<std::size_t>(i % 4)]), 0);
}

ValueSpec numbers(quern_dtype dtype, std::string name, std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return filled(input(dtype, {count}), std::move(name), [values](const Tensor& t, const CounterRandom&) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, values[static_cast<std::size_t>(i)]);
  });
}

void generate(CaseSink& sink) {
  constexpr OpUnderTest what{QUERN_OP_RANDOM_UNIFORM, "sampling", level_training, reference};
  struct Seed {
    const char* name;
    double low, high;
  };
  const Seed seeds[] = {
      {"zero", 0, 0}, {"one", 1, 0}, {"high", 0, 1}, {"all", 4294967295.0, 4294967295.0}, {"pi", 2752067618.0, 698298832.0}};
  for (const Seed& seed : seeds)
    for (const double step : {0.0, 1.0, 1000000.0, 2147483647.0, -1.0})
      for (const double salt : {0.0, 1.0, 4294967295.0})
        for (const Dims& dims : {Dims{1}, Dims{7}, Dims{5, 31}, Dims{3, 4, 65}, Dims{129, 1025}}) {
          const bool quick = element_count(dims) < 1000 && (salt != 1 || step == 1);
          sink.add(make_case(what, quick ? Profile::quick : Profile::full,
                             {numbers(QUERN_U32, seed.name, {seed.low, seed.high}),
                              numbers(QUERN_I32, "step" + std::to_string(static_cast<int>(step)), {step})},
                             {output(QUERN_F32, dims)}, unless_default({{{QUERN_KEY_SALT, salt}, 0}})));
        }
  const ValueSpec seed = numbers(QUERN_U32, "pi", {2752067618.0, 698298832.0}), step = numbers(QUERN_I32, "step3", {3});
  for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), ordered({0, 2, 1}), shifted()})
    sink.add(make_case(what, Profile::quick, {seed, step}, {output(QUERN_F32, {3, 5, 33}, layout)}));
  sink.add(make_case(what, Profile::quick, {seed, step}, {output(QUERN_F32, {0, 5})}));
}

}  // namespace

extern const Family random_uniform_family;
const Family random_uniform_family = {"random_uniform", generate};

}  // namespace quern::conformance
