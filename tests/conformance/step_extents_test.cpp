// Graphs of steps with two ranged extents: rows, and rows whose outputs are wanted.
#include "case_table/case_table.hpp"
#include "device_run/flat_graph.hpp"
#include "quern/quern_ops.h"
#include "quern/quern_plugin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace quern::conformance {
namespace {

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

/// What the graph's output_row holds; empty where it has none.
std::vector<std::int64_t> output_rows(const WholeGraph& graph) {
  const auto found = std::ranges::find(graph.values, "output_row", &GraphValue::name);
  if (found == graph.values.end() || found->extent != Extent::outputs) return {};
  const Tensor rows(QUERN_I32, found->spec.dims);
  found->spec.fill(rows, CounterRandom::of("rows"));
  std::vector<std::int64_t> list;
  for (std::int64_t o = 0; o < rows.count(); ++o) list.push_back(static_cast<std::int64_t>(rows.at(o)));
  return list;
}

TEST(StepExtents, TheOutputsOfEachRunAreOfRowsThatItHas) {
  std::size_t graphs = 0;
  for (const Case& c : table().all()) {
    const std::vector<std::int64_t> rows = c.graph ? output_rows(*c.graph) : std::vector<std::int64_t>();
    if (rows.empty()) continue;
    ++graphs;
    for (const Extents& run : c.graph->runs) {
      const std::vector<std::int64_t> of_run(rows.begin(), rows.begin() + run.outputs);
      for (const std::int64_t row : of_run) EXPECT_TRUE(row >= 0 && row < run.rows) << c.name << ": row " << row << " of " << run.rows;
      if (run.outputs == run.rows) {
        EXPECT_EQ(std::set<std::int64_t>(of_run.begin(), of_run.end()).size(), of_run.size()) << c.name << ": a row that no output is of";
      }
      if (run.outputs > 1) { EXPECT_FALSE(std::ranges::is_sorted(of_run)) << c.name << ": a plugin that takes the first rows would pass"; }
    }
  }
  EXPECT_GT(graphs, 100u);
}

/// The symbols of the values that the first node of `op` reads and writes, by their names.
std::set<std::string> symbols_at(const FlatGraph& flat, std::uint32_t op) {
  const sdk::List<quern_value> values(flat.graph()->values, "values");
  const sdk::List<quern_symbol> symbols(flat.graph()->symbols, "symbols");
  std::set<std::string> found;
  for (const quern_node& node : sdk::List<quern_node>(flat.graph()->nodes, "nodes")) {
    if (node.op != op) continue;
    for (const quern_array* list : {&node.inputs, &node.outputs})
      for (const std::uint32_t v : sdk::List<std::uint32_t>(*list, "values"))
        if (values[v].symbols[0] != 0) found.insert(symbols[values[v].symbols[0] - 1].name.data);
    break;
  }
  return found;
}

TEST(StepExtents, APlanSeesASymbolOfEach) {
  const Case* c = table().find("graphs.sequences.rows72.q4_k_m");
  ASSERT_NE(c, nullptr);
  const FlatGraph flat(*c->graph, Numerics::fast);
  EXPECT_EQ(sdk::List<quern_symbol>(flat.graph()->symbols, "symbols").size(), 2u);
  EXPECT_EQ(symbols_at(flat, QUERN_OP_ROPE), (std::set<std::string>{"rows"}));
  EXPECT_EQ(symbols_at(flat, QUERN_OP_ARGMAX), (std::set<std::string>{"outputs"}));
}

TEST(StepExtents, LayersHaveThemToo) {
  for (const char* family : {"llama", "gemma2", "granite", "lora"}) {
    const Case* c = table().find("graphs.layers." + std::string(family) + ".f16.three_sequences");
    ASSERT_NE(c, nullptr) << family;
    EXPECT_NE(c->graph->most.outputs, 0) << family;
  }
}

}  // namespace
}  // namespace quern::conformance
