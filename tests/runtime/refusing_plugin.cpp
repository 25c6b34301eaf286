// The CPU backend, but one call of the runtime meets a refusal of its arguments: prepare, or the one that QUERN_REFUSED names.
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

quern_plugin_api wrapped() {
  quern_plugin_api api = quern::test::base_plugin();
  api.id = sdk::text_of("refusing");
  const char* chosen = std::getenv("QUERN_REFUSED");
  if (chosen != nullptr && std::string_view(chosen) == "submit") {
    api.submit = refuse_submit;
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
