// A deep copy of a graph that may be changed and handed on: what edits of descriptors work on, and what a run reads shapes from.
#pragma once

#include "quern/quern_plugin.hpp"

#include <vector>

namespace quern::mutant {

struct NodeCopy {
  quern_node fields;  // its lists are the vectors below
  std::vector<std::uint32_t> inputs, outputs;
  std::vector<quern_attribute> attributes;

  std::uint32_t input(std::size_t i) const noexcept { return i < inputs.size() ? inputs[i] : QUERN_NONE; }
  std::uint32_t output(std::size_t i) const noexcept { return i < outputs.size() ? outputs[i] : QUERN_NONE; }
  /// Null if the attribute was not sent.
  quern_attribute* attribute(std::uint32_t key) noexcept;
  /// Its value as a number, or `fallback`.
  double number(std::uint32_t key, double fallback) const noexcept;
};

class GraphCopy {
 public:
  /// Throws sdk::Failure where lists are malformed; checks nothing else. Strings and bodies stay the host's memory.
  explicit GraphCopy(const quern_graph* graph);

  /// The graph as it is now; valid until the next change. The strings are those of the host's graph.
  const quern_graph* view();
  const std::vector<quern_symbol>& symbols() const noexcept { return symbols_; }

  std::vector<quern_value> values;
  std::vector<NodeCopy> nodes;

 private:
  std::vector<quern_symbol> symbols_;
  std::vector<quern_node> flat_;
  quern_graph graph_;
};

}  // namespace quern::mutant
