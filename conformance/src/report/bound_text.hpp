// What a case allows, as text: for who contests a bound.
#pragma once

#include "case_table/case.hpp"

#include <cstdint>
#include <string>

namespace quern::conformance {

/// Of each output the rule, and of its elements the expected value and the parts of the bound: of the first elements, and of the one with the
/// tightest and the widest bound for its size. Then what the parts are, and where the derivation stands. A whole graph and a script have no
/// bound of their own; the text says what they are judged by.
std::string bound_text(const Case& c, std::uint64_t seed);

}  // namespace quern::conformance
