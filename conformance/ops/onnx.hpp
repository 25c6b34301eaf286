// The references that the node tests of ONNX take from the families.
#pragma once

#include "case_table/case.hpp"
#include "onnx/graph_script.hpp"

#include <vector>

namespace quern::conformance {

/// Of each of onnx::vectors(), in their order, the references of its nodes by the families' `cases`; empty where an op has no family.
std::vector<onnx::References> onnx_references(const std::vector<Case>& cases);

}  // namespace quern::conformance
