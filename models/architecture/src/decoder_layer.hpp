// The layer that the llama family shares, as nodes of a step graph.
#pragma once

#include "quern/graph/ops.hpp"
#include "quern/models/architecture.hpp"

#include <string>

namespace quern::models {

/// A step graph under construction.
struct StepBuilder {
  StepBuilder(const Hyperparameters& m, const gguf::File& f, const StepOptions& o, StepGraph& s) : model(m), file(f), options(o), step(s) {}

  const Hyperparameters& model;
  const gguf::File& file;
  const StepOptions& options;
  StepGraph& step;

  /// A constant bound to a tensor of the file, with its dtype and shape; asked for once a tensor.
  graph::ValueId weight(const std::string& tensor);
  /// Options of a node: its name and the conversions that the session allows.
  graph::NodeOptions node(std::string name) const;
};

/// Adds one layer to the rows x [T, hidden] and returns the rows behind it.
graph::ValueId add_decoder_layer(StepBuilder& builder, std::uint32_t layer, graph::ValueId x);

}  // namespace quern::models
