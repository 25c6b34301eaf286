// The CPU backend, but while QUERN_TEST_WAIT is set a run lasts until it is cancelled, 5 s at most.
#include "base_plugin.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

quern_plugin_api base;
std::atomic<bool> asked{false};

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  if (std::getenv("QUERN_TEST_WAIT") == nullptr) return base.submit(device, queue, runs, error);
  for (int waited = 0; waited < 5000 && !asked; ++waited) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!asked.exchange(false)) return base.submit(device, queue, runs, error);
  for (std::uint64_t i = 0; i < runs->count; ++i) {
    const auto* run = reinterpret_cast<const quern_run*>(static_cast<const char*>(runs->data) + i * runs->stride);
    if (run->status != nullptr) run->status->code = QUERN_CANCELLED;
  }
  return QUERN_OK;
}

quern_status run_cancel(quern_instance*, quern_error*) {
  asked = true;
  return QUERN_OK;
}

quern_plugin_api wrapped() {
  quern_plugin_api api = quern::test::base_plugin();
  base = api;
  api.id = quern::sdk::text_of("waiting");
  api.submit = submit;
  api.run_cancel = run_cancel;
  return api;
}

const quern_plugin_api& table() noexcept {
  static const quern_plugin_api api = wrapped();
  return api;
}

}  // namespace

QUERN_PLUGIN_NOTE("waiting", "1.0", QUERN_DEVICE_CPU, 0, "");
QUERN_PLUGIN_ENTRY(table())
