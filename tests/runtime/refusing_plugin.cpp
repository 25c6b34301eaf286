// The CPU backend, but one call of the runtime meets a refusal of its arguments: prepare, or the one that QUERN_REFUSED names. Where that
// names op set 2, support answers no to its ops, as a plugin of op set 1 does.
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

quern_status support_of_set_1(quern_device* device, const quern_graph* graph, const quern_support_options* options, quern_answer* answers,
                              quern_error* error) {
  const quern_status status = base.support(device, graph, options, answers, error);
  for (std::uint64_t n = 0; status == QUERN_OK && n < graph->nodes.count; ++n) {
    const auto* node = reinterpret_cast<const quern_node*>(static_cast<const std::byte*>(graph->nodes.data) + n * graph->nodes.stride);
    if (node->op != QUERN_OP_ATTENTION_RAGGED && node->op != QUERN_OP_ATTENTION_RAGGED_BACKWARD) continue;
    answers[n].verdict = QUERN_ANSWER_NO;
    answers[n].text = sdk::text_of("the op is newer than the op set 1 of this plugin");
  }
  return status;
}

quern_plugin_api wrapped() {
  quern_plugin_api api = base = quern::test::base_plugin();
  api.id = sdk::text_of("refusing");
  const char* chosen = std::getenv("QUERN_REFUSED");
  if (chosen != nullptr && std::string_view(chosen) == "submit") {
    api.submit = refuse_submit;
  } else if (chosen != nullptr && std::string_view(chosen) == "op_set_2") {
    api.support = support_of_set_1;
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
