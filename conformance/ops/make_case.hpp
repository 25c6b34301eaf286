// A case of an op in one call, for the families whose cases differ in values and attributes alone.
#pragma once

#include "ops/family.hpp"
#include "quern/quern_plan.h"

namespace quern::conformance {

/// What all cases of an op share.
struct OpUnderTest {
  std::uint32_t op;
  const char* group;
  int level;
  ReferenceFunction reference;
};

inline Case make_case(const OpUnderTest& what, Profile profile, std::vector<ValueSpec> inputs, std::vector<ValueSpec> outputs,
                      std::vector<Attribute> attributes = {}) {
  Case c;
  c.op = what.op;
  c.group = what.group;
  c.level = what.level;
  c.reference = what.reference;
  c.profile = profile;
  c.inputs = std::move(inputs);
  c.outputs = std::move(outputs);
  c.attributes = std::move(attributes);
  return c;
}

/// Attributes that are not at their default: an op's attribute is not sent where it is (C4).
inline std::vector<Attribute> unless_default(std::vector<std::pair<Attribute, double>> attributes) {
  std::vector<Attribute> sent;
  for (const auto& [attribute, fallback] : attributes)
    if (attribute.value != fallback) sent.push_back(attribute);
  return sent;
}

/// Subtraction of x and dy, products of two, ...: the rounding of each f32 result of size |r|, `count` of them.
inline double roundings(int count, double r) { return count * u32 * std::fabs(r); }

}  // namespace quern::conformance
