// See act_order.hpp.
#include "act_order.hpp"

#include "plan.hpp"

#include "quern/graph/ops.hpp"
#include "quern/models/directory.hpp"

#include <algorithm>

namespace quern::runtime {
namespace {

bool has_order(const gguf::File& file) {
  return std::ranges::any_of(file.tensors(), [](const gguf::TensorInfo& tensor) { return tensor.dtype == QUERN_I32; });
}

/// One row of f32 in another order: what a step asks of `take`.
graph::Graph question() {
  constexpr std::int64_t columns = 256;
  graph::Graph graph("take");
  const graph::ValueId x = graph.input("x", QUERN_F32, {1, columns});
  graph.mark_output(graph::ops::take(graph, x, graph.constant("order", QUERN_I32, {columns})), "y");
  return graph;
}

}  // namespace

gguf::File open_for_devices(Runtime& runtime, const std::string& path) {
  gguf::File file = models::open_model(path, models::ActOrder::by_groups);
  if (!has_order(file)) return file;
  const graph::Graph asked = question();
  for (const auto& budget : runtime.devices()) {
    const loader::Device& device = *budget->device();
    const std::vector<NodeAnswer> answers = ask_support(device, asked);
    const auto no = std::ranges::find(answers, false, &NodeAnswer::yes);
    if (no == answers.end()) continue;
    runtime.log(QUERN_LOG_WARN, concat(path, ": ", device.label(), " does not compute take: ", no->text));
    return models::open_model(path);
  }
  return file;
}

}  // namespace quern::runtime
