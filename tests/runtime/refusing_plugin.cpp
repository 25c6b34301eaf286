// The CPU backend, but one call of the runtime meets a refusal of its arguments: prepare, or the one that QUERN_REFUSED names. Where that
// names op set 2, support answers no to what is new in it, as a plugin of op set 1 does; the same of take. Where it names a card, the device calls
// itself one.
#include "base_plugin.hpp"

#include <cstdlib>
#include <string_view>

namespace {

namespace sdk = quern::sdk;

constexpr const char* said = "this binding is none of mine";

quern_status refuse(quern_error* error) { return sdk::set_error(error, QUERN_INVALID_ARGUMENT, said, 0); }

quern_status refuse_prepare(quern_device*, quern_queue*, const quern_array*, const quern_sync*, quern_error* error) {
  return refuse(error);
}

quern_status refuse_submit(quern_device*, quern_queue*, const quern_array*, quern_error* error) { return refuse(error); }

quern_plugin_api base;

/// Whether a node is one of op set 2.
bool is_newer(const sdk::Graph& graph, const sdk::Node& node, const quern_node& given) {
  const auto is_over = [&](std::size_t input) {
    if (input >= node.inputs.size() || node.inputs[input] == QUERN_NONE) return false;
    const std::uint32_t output = node.outputs[0];
    return output == node.inputs[input] || graph.values[output].alias_of == node.inputs[input];
  };
  switch (node.fields.op) {
    case QUERN_OP_ATTENTION_RAGGED:
    case QUERN_OP_ATTENTION_RAGGED_BACKWARD: return true;
    case QUERN_OP_MATMUL:
      return is_over(3) || (sdk::element_size(graph.values[node.inputs[1]].dtype).elements > 1 &&
                            sdk::Attributes(given).integer(QUERN_KEY_TRANSPOSE_B) != 0);
    case QUERN_OP_CROSS_ENTROPY_BACKWARD: return is_over(0);
    default: return false;
  }
}

template <typename Refused>
quern_status support_without(const Refused& refused, const char* text, quern_device* device, const quern_graph* graph,
                             const quern_support_options* options, quern_answer* answers, quern_error* error) {
  const quern_status status = base.support(device, graph, options, answers, error);
  if (status != QUERN_OK) return status;
  const sdk::Graph read(graph);
  const sdk::List<quern_node> nodes(graph->nodes, "nodes");
  for (std::size_t n = 0; n < read.nodes.size(); ++n) {
    if (!refused(read, read.nodes[n], nodes[n])) continue;
    answers[n].verdict = QUERN_ANSWER_NO;
    answers[n].text = sdk::text_of(text);
  }
  return status;
}

quern_status support_of_set_1(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                              quern_error* error) {
  return support_without(is_newer, "it is newer than the op set 1 of this plugin", device, graph, options, answers, error);
}

quern_status support_without_take(quern_device* device, const quern_graph* graph, const quern_support_options* options,
                                  quern_answer* answers, quern_error* error) {
  const auto is_take = [](const sdk::Graph&, const sdk::Node& node, const quern_node&) { return node.fields.op == QUERN_OP_TAKE; };
  return support_without(is_take, "it is newer than the op set 2 of this plugin", device, graph, options, answers, error);
}

quern_status info_of_card(quern_plugin* plugin, std::uint32_t index, quern_device_info* out, quern_error* error) {
  const quern_status status = base.device_info(plugin, index, out, error);
  out->device_class = QUERN_DEVICE_DISCRETE;
  return status;
}

quern_status support_without_bf16(quern_device* device, const quern_graph* graph, const quern_support_options* options,
                                  quern_answer* answers, quern_error* error) {
  const auto is_bf16 = [](const sdk::Graph& read, const sdk::Node& node, const quern_node&) {
    return read.values[node.outputs[0]].dtype == QUERN_BF16;
  };
  return support_without(is_bf16, "this card has no bf16", device, graph, options, answers, error);
}

quern_plugin_api wrapped() {
  quern_plugin_api api = base = quern::test::base_plugin();
  api.id = sdk::text_of("refusing");
  const char* chosen = std::getenv("QUERN_REFUSED");
  if (chosen != nullptr && std::string_view(chosen) == "submit") {
    api.submit = refuse_submit;
  } else if (chosen != nullptr && std::string_view(chosen) == "op_set_2") {
    api.support = support_of_set_1;
  } else if (chosen != nullptr && std::string_view(chosen) == "take") {
    api.support = support_without_take;
  } else if (chosen != nullptr && std::string_view(chosen).starts_with("card")) {
    api.device_info = info_of_card;
    if (std::string_view(chosen) == "card_without_bf16") api.support = support_without_bf16;
  } else {
    api.prepare = refuse_prepare;
  }
  return api;
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = wrapped();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("refusing", "1.0", QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(table())
