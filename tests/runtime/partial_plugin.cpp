// The CPU backend as a discrete card that has one op: matmul.
#include "base_plugin.hpp"

namespace {

using quern::sdk::guarded;
using quern::sdk::List;

quern_plugin_api base;

quern_status device_info(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  const quern_status status = base.device_info(plugin, index, out, error);
  out->device_class = QUERN_DEVICE_DISCRETE;
  return status;
}

quern_status support(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                     quern_error* error) {
  const quern_status status = base.support(device, graph, options, answers, error);
  if (status != QUERN_OK) return status;
  return guarded(error, [&] {
    std::size_t i = 0;
    for (const quern_node& node : List<quern_node>(graph->nodes, "nodes"))
      if (quern_answer& answer = answers[i++]; node.op != QUERN_OP_MATMUL) {
        answer.verdict = QUERN_ANSWER_NO;
        answer.text = quern::sdk::text_of("partial: only products are here");
      }
  });
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = [] {
    quern_plugin_api made = quern::test::base_plugin();
    base = made;
    made.id = quern::sdk::text_of("partial");
    made.device_info = device_info;
    made.support = support;
    return made;
  }();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("partial", "1.0", QUERN_DEVICE_DISCRETE, 0, "");
QUERN_PLUGIN_ENTRY(table())
