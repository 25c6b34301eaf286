// The CPU backend, but while QUERN_TEST_WAIT is set a run lasts until it is cancelled. The variable is the number of a pipe, into which a run that
// has begun puts a byte.
#include "base_plugin.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace {

quern_plugin_api base;
std::mutex mutex;
std::condition_variable changed;
bool asked = false;

/// A run that nobody cancels within a minute goes on, and the test sees that it was not cancelled.
bool wait_for_cancel() {
  std::unique_lock lock(mutex);
  const bool heard = changed.wait_for(lock, std::chrono::minutes(1), [] { return asked; });
  asked = false;
  return heard;
}

quern_status submit(quern_device* device, quern_queue* queue, const quern_array* runs, quern_error* error) {
  const char* pipe = std::getenv("QUERN_TEST_WAIT");
  if (pipe == nullptr || ::write(std::atoi(pipe), "", 1) != 1 || !wait_for_cancel()) return base.submit(device, queue, runs, error);
  for (std::uint64_t i = 0; i < runs->count; ++i) {
    const auto* run = reinterpret_cast<const quern_run*>(static_cast<const char*>(runs->data) + i * runs->stride);
    if (run->status != nullptr) run->status->code = QUERN_CANCELLED;
  }
  return QUERN_OK;
}

quern_status run_cancel(quern_instance*, quern_error*) {
  const std::lock_guard lock(mutex);
  asked = true;
  changed.notify_one();
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
