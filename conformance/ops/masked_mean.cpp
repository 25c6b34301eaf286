// masked_mean: the mean of x where mask is not 0, and how many those are. Bound: T1 of the sum, over count. What the mask hides may be NaN.
#include "ops/given.hpp"

#include <limits>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &mask = call.inputs[1];
  double sum = 0, scale = 0, count = 0;
  for (std::int64_t i = 0; i < x.count(); ++i)
    if (mask.at(i) != 0) sum += x.at(i), scale += std::fabs(x.at(i)), ++count;
  ExpectedOutput &y = expected.outputs[0], &counted = expected.outputs[1];
  y.rule = Rule::bounded;
  y.length = count;
  y.add(count == 0 ? 0 : sum / count, count == 0 ? 0 : accumulation_bound(Tier::t1, count, scale / count));
  y.scale.push_back(count == 0 ? 0 : scale / count);
  counted.rule = Rule::value;
  counted.add(count, 0);
}

enum class Mask { all, half, one, none };

double mask_entry(Mask mask, std::int64_t i, std::int64_t n) {
  constexpr double live[] = {1, -1, 7, 1 << 30};  // any number but 0
  switch (mask) {
    case Mask::all: return live[i % 4];
    case Mask::half: return CounterRandom::of("mask").below(static_cast<std::uint64_t>(i), 2) != 0 ? live[i % 4] : 0;
    case Mask::one: return i == n / 2 ? 1 : 0;
    default: return 0;
  }
}

void generate(CaseSink& sink) {
  for (const std::int64_t n : {1, 2, 5, 31, 64, 257, 1000, 4096, 70001, 1048576})
    for (const Mask mask : {Mask::all, Mask::half, Mask::one, Mask::none})
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::exponents})
        for (const bool apart : {false, true}) {
          if (apart && (n < 5 || data != DataKind::gaussian)) continue;
          constexpr const char* names[] = {"all", "half", "one", "none"};
          const char* name = names[static_cast<int>(mask)];
          Case c;
          c.group = "loss";
          c.op = QUERN_OP_MASKED_MEAN;
          c.profile = n <= 4096 ? Profile::quick : Profile::full;
          c.level = level_training;
          c.inputs = {filled(input(QUERN_F32, {n}, data, apart ? shifted() : Layout{}), std::string(data_name(data)) + "_hidden_nan",
                             [mask, data](const Tensor& x, const CounterRandom& random) {
                               fill(x, data, random);
                               for (std::int64_t i = 0; i < x.count(); ++i)
                                 if (mask_entry(mask, i, x.count()) == 0) x.set(i, std::numeric_limits<double>::quiet_NaN());
                             }),
                      filled(input(QUERN_I32, {n}, DataKind::uniform, apart ? shifted() : Layout{}), name,
                             [mask](const Tensor& m, const CounterRandom&) {
                               for (std::int64_t i = 0; i < m.count(); ++i) m.set(i, mask_entry(mask, i, m.count()));
                             })};
          c.outputs = {output(QUERN_F32, {1}), output(QUERN_F32, {1})};
          c.reference = reference;
          sink.add(std::move(c));
        }
}

}  // namespace

extern const Family masked_mean_family;
const Family masked_mean_family = {"masked_mean", generate};

}  // namespace quern::conformance
