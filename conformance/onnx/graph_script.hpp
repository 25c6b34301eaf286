// Runs an ONNX test that takes several of our nodes: compiled as one graph, each node judged on what the device handed to it.
#pragma once

#include "device_run/script.hpp"
#include "onnx/vectors.hpp"

namespace quern::conformance::onnx {

/// First the references alone: they must give ONNX's values, else the script is `unknown`. Then the graph on the device, twice with
/// different poisons in outputs and scratch: both runs agree to the bit, inputs and canaries are whole, each node's outputs are within
/// the bound of its op for the inputs that the device gave it.
void run_graph(ScriptContext& t, const Vector& vector, const References& references);

}  // namespace quern::conformance::onnx
