// A compiled graph on one device: RAII over the plan, its one instance, and the statuses of its calls.
#pragma once

#include "memory.hpp"

#include "quern/graph/graph.hpp"

#include <string>
#include <vector>

namespace quern::runtime {

/// A plugin's answer for one node, in words.
struct NodeAnswer {
  bool yes = false;
  std::string text;    // why not
  std::string kernel;  // what would run
};

/// Asks a device which nodes of a graph it computes. Requirements that this host cannot meet count as "no".
std::vector<NodeAnswer> ask_support(const loader::Device& device, const graph::Graph& graph);

/// One kernel of a plan, for reports.
struct KernelUse {
  std::string name;
  std::string reason;
  std::uint32_t nodes = 0;
  std::uint32_t first_node = 0;  // of the plan's graph
};

struct SlotBinding {
  graph::ValueId value;
  quern_span span;
};

struct RunBound {
  graph::SymbolId symbol;  // as in Graph: index + 1
  std::int64_t upper;
};

class Plan {
 public:
  /// Compiles. Throws Error with the plugin's code and text.
  Plan(std::shared_ptr<loader::Device> device, const graph::Graph& graph, const std::string& force_kernel);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::uint64_t scratch_bytes() const noexcept { return info_.scratch_bytes; }
  std::uint64_t private_bytes() const noexcept { return info_.private_bytes; }
  const std::vector<KernelUse>& kernels() const noexcept { return kernels_; }

  /// Binds every slot; once, before the first run.
  void prepare(const std::vector<SlotBinding>& bindings, quern_span scratch);
  /// Runs to the end. Throws Error(QUERN_CANCELLED) after cancel(). Allocates nothing.
  void run(const std::vector<RunBound>& bounds);
  /// From any thread.
  void cancel() noexcept;
  quern_counters counters() const;

 private:
  void read_kernels();
  void make_instance(const graph::Graph& graph);
  void destroy() noexcept;

  std::shared_ptr<loader::Device> device_;
  std::string graph_name_;
  std::vector<std::string> node_names_;
  quern_plan* plan_ = nullptr;
  quern_instance* instance_ = nullptr;
  quern_instance_info info_{};
  std::vector<KernelUse> kernels_;
  std::vector<quern_bound> bounds_;  // reused by every run
};

}  // namespace quern::runtime
