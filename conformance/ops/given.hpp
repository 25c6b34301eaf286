// Inputs with values of the case's own: indices, lengths, scalars, predicates.
#pragma once

#include "ops/family.hpp"

#include <bit>
#include <stdexcept>

namespace quern::conformance {

/// These values, row-major; `name` stands for them in the case's name.
inline ValueSpec given(ValueSpec v, std::string name, std::vector<double> values) {
  return filled(std::move(v), std::move(name), [values = std::move(values)](const Tensor& t, const CounterRandom&) {
    if (values.size() != static_cast<std::size_t>(t.count()))
      throw std::logic_error("a case gives another number of values than its input has");
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, values[static_cast<std::size_t>(i)]);
  });
}
inline ValueSpec given(ValueSpec v, std::string name, const std::vector<std::int64_t>& values) {
  return given(std::move(v), std::move(name), std::vector<double>(values.begin(), values.end()));
}
/// One number, [1].
inline ValueSpec number(quern_dtype dtype, double x, std::string name) {
  return given(input(dtype, {1}), std::move(name), std::vector<double>{x});
}

/// What an i32 that holds the bits of an f32 (the scale of an adapter) is given.
inline double bits_as_i32(float x) { return static_cast<double>(std::bit_cast<std::int32_t>(x)); }

/// `c` under a predicate: one number, or one for each row of its first input.
inline Case with_predicate(Case c, std::vector<std::int64_t> live, std::string name) {
  constexpr std::int64_t numbers[] = {256, 2, -2, 65536, INT32_MIN, 1};  // any number but 0 is live, whatever its bits
  for (std::size_t i = 0; i < live.size(); ++i) live[i] = live[i] == 0 ? 0 : numbers[i % std::size(numbers)];
  c.inputs.push_back(given(input(QUERN_I32, {static_cast<std::int64_t>(live.size())}), std::move(name), live));
  c.predicated = true;
  return c;
}
/// Whether row `row` of the first input is live.
inline bool row_live(const ReferenceCall& call, std::int64_t row) {
  if (!call.what.predicated) return true;
  const Tensor& predicate = call.inputs.back();
  return predicate.at(predicate.count() == 1 ? 0 : row) != 0;
}

}  // namespace quern::conformance
