// The f64 references of adamw and sgd, which the script of many steps shares with their single-step cases.
#pragma once

#include "ops/given.hpp"

namespace quern::conformance {

/// Inputs gradient step lr scale?; outputs w m v master?, all of them states. Bounds in adamw.cpp.
void adamw_reference(const ReferenceCall& call, Expected& expected);
/// Inputs gradient lr scale?; outputs w momentum?. Bounds in sgd.cpp.
void sgd_reference(const ReferenceCall& call, Expected& expected);

}  // namespace quern::conformance
