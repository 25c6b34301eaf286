// Runs one whole graph on an open device: as one plan, without fusion, node by node, and with each of its values marked as output.
#pragma once

#include "device_run/case_run.hpp"

namespace quern::conformance {

/// Runs the graph in exact numerics, and in fast ones where the case allows conversions. Each is run again with packed weights where the
/// plugin plans a layout for a constant. There is one result for each plan that ran, and for each step of a graph of several.
/// ModeResult::role names the plan:
///   whole         one plan; runs_of() runs with different poisons, which must agree to the bit; outputs and states are observed
///   unfused       the same with fusion switched off
///   node_by_node  a plan a node, chained through memory; what every node writes is observed
///   marked        one plan in which one internal value is an output (graph->mark_each); that value is observed too
///   other_rows    the whole plan with other numbers of rows and of outputs (graph->runs)
/// The plans whole and other_rows run once more as a session asks (ModeResult::as_session), packed where the plugin plans a layout. Each node
/// asks for session_determinism(). A graph whose rows are fixed has a ranged number of them there, and of rows whose outputs are wanted, with room for
/// some more. Its instance has no bounds of its own, its runs have. On CPUs every graph runs so. On other devices runs_as_session() chooses them.
/// Above 128 MiB of constants there is one poison only, and fast numerics have only the packed form where the plugin plans one.
/// Canaries, inputs, constants, rows beyond the run's and the run's status are checked. What is wrong is Outcome::failed of that mode.
/// `as_session`: false leaves that mode out.
std::vector<ModeResult> run_graph(const loader::Device& device, const Case& c, const CaseData& data, bool as_session = true);

}  // namespace quern::conformance
