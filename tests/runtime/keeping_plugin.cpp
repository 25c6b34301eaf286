// The CPU backend, but each of its plans keeps 3 MiB for itself, as its instance says.
#include "base_plugin.hpp"

namespace {

namespace sdk = quern::sdk;

constexpr std::uint64_t kept = 3 << 20;

quern_plugin_api base;

quern_status instance_create(quern_plan* plan, const quern_instance_options* options, quern_instance** out, quern_instance_info* info,
                             quern_error* error) {
  const quern_status status = base.instance_create(plan, options, out, info, error);
  if (status == QUERN_OK && info != nullptr) info->private_bytes += kept;
  return status;
}

quern_plugin_api wrapped() {
  base = quern::test::base_plugin();
  quern_plugin_api api = base;
  api.id = sdk::text_of("keeping");
  api.instance_create = instance_create;
  return api;
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = wrapped();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("keeping", "1.0", QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(table())
