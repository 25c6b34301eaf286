// See graph_builder.hpp.
#include "graphs/graph_builder.hpp"

#include <algorithm>
#include <stdexcept>

namespace quern::conformance {

GraphBuilder::GraphBuilder(std::int64_t most, const std::vector<std::int64_t>& counts) : most_{most, 0} {
  graph_.most = most_;
  for (const std::int64_t rows : counts) graph_.runs.push_back({rows, 0});
}

void GraphBuilder::have_outputs(std::int64_t most, const std::vector<std::int64_t>& counts) {
  if (counts.size() != graph_.runs.size()) throw std::logic_error("each run has a number of rows and one of outputs");
  most_.outputs = most;
  if (graph_.runs.empty()) return;
  graph_.most.outputs = most;
  for (std::size_t i = 0; i < counts.size(); ++i) graph_.runs[i].outputs = counts[i];
}

int GraphBuilder::add(std::string name, ValueSpec spec) {
  GraphValue v;
  v.name = std::move(name);
  v.spec = std::move(spec);
  if (!v.spec.dims.empty() && v.spec.dims[0] < 0) {
    v.extent = v.spec.dims[0] == rows_dim ? Extent::rows : Extent::outputs;
    v.spec.dims[0] = most_.of(v.extent);
    v.ranged = graph_.most.of(v.extent) != 0;
  }
  graph_.values.push_back(std::move(v));
  return static_cast<int>(graph_.values.size()) - 1;
}

int GraphBuilder::input(std::string name, ValueSpec spec) { return add(std::move(name), std::move(spec)); }

int GraphBuilder::weight(std::string name, quern_dtype dtype, Dims dims, DataKind data) {
  return add(std::move(name), constant(dtype, std::move(dims), data));
}

int GraphBuilder::state(std::string name, ValueSpec spec) {
  spec.kind = QUERN_VALUE_STATE;
  return add(std::move(name), std::move(spec));
}

int GraphBuilder::internal(std::string name, quern_dtype dtype, Dims dims) {
  ValueSpec spec = conformance::output(dtype, std::move(dims));
  spec.kind = QUERN_VALUE_INTERNAL;
  return add(std::move(name), std::move(spec));
}

int GraphBuilder::in_place(std::string name, int of) {
  const ValueSpec& root = at(of).spec;
  const int value = internal(std::move(name), root.dtype, root.dims);
  at(value).alias_of = of;
  at(value).extent = at(of).extent;
  at(value).ranged = at(of).ranged;
  return value;
}

int GraphBuilder::reshape(int value, Dims dims) {
  const std::string name = at(value).name + ".view";
  const int view = internal(name, at(value).spec.dtype, std::move(dims));
  at(view).alias_of = value;
  return view;
}

int GraphBuilder::part(int value, Dims dims, std::uint64_t offset, std::int64_t row_bytes) {
  const int view = reshape(value, std::move(dims));
  at(view).name = at(value).name + ".part" + std::to_string(offset);
  at(view).part_offset = offset;
  at(view).part_row_bytes = row_bytes;
  return view;
}

int GraphBuilder::columns(int value, std::int64_t first, Dims dims) {
  const ValueSpec& whole = at(value).spec;
  const auto element = static_cast<std::int64_t>(unit_of(whole.dtype).bytes);
  return part(value, std::move(dims), static_cast<std::uint64_t>(first * element), whole.dims[1] * element);
}

int GraphBuilder::matrix_rows(int value, std::int64_t first, std::int64_t count) {
  const ValueSpec& whole = at(value).spec;
  const std::uint64_t row = packed_bytes(whole.dtype, {1, whole.dims[1]});
  return part(value, {count, whole.dims[1]}, static_cast<std::uint64_t>(first) * row, static_cast<std::int64_t>(row));
}

int GraphBuilder::node(std::uint32_t op, std::string name, std::vector<int> inputs, Dims dims, std::vector<Attribute> attributes,
                       quern_dtype dtype) {
  const int y = internal(std::move(name), dtype, std::move(dims));
  node_into(op, std::move(inputs), {y}, std::move(attributes));
  return y;
}

void GraphBuilder::node_into(std::uint32_t op, std::vector<int> inputs, std::vector<int> outputs, std::vector<Attribute> attributes) {
  const bool converts = op == QUERN_OP_MATMUL || op == QUERN_OP_MATMUL_ID || op == QUERN_OP_LORA_MATMUL || op == QUERN_OP_ATTENTION;
  graph_.nodes.push_back({op, std::move(inputs), std::move(outputs), std::move(attributes), converts ? conversions_ : 0, no_value});
}

Case GraphBuilder::finish(Profile profile, int level) {
  Case c;
  c.group = "graphs";
  c.profile = profile;
  c.level = level;
  for (GraphValue& v : graph_.values)
    if (v.spec.kind == QUERN_VALUE_INPUT || v.spec.kind == QUERN_VALUE_CONSTANT || v.spec.kind == QUERN_VALUE_STATE) {
      v.input = static_cast<int>(c.inputs.size());
      c.inputs.push_back(v.spec);
    }
  for (const GraphNode& node : graph_.nodes) {
    c.fast_conversions |= node.fast_conversions;
    for (const int y : node.outputs) {
      if (y == no_value || at(y).output != no_value) continue;
      at(y).output = static_cast<int>(c.outputs.size());
      ValueSpec spec = at(y).spec;
      spec.kind = QUERN_VALUE_OUTPUT;  // a state's contents before are those of Case::inputs
      c.outputs.push_back(std::move(spec));
    }
  }
  c.faults = graph_.faults;
  c.graph = std::make_shared<const WholeGraph>(std::move(graph_));
  return c;
}

}  // namespace quern::conformance
