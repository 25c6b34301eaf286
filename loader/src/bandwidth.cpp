// Copies 64 MiB within a device's memory and takes the time. Not a benchmark: it only has to tell a slow card
// from a fast one, and never fails a probe.
#include "bandwidth.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

namespace quern::loader {
namespace {

constexpr std::uint64_t copy_bytes = 64ull << 20;
constexpr std::uint64_t limit_nanoseconds = 1'000'000'000;

class Undo {
 public:
  explicit Undo(std::function<void()> action) : action_(std::move(action)) {}
  ~Undo() { action_(); }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

 private:
  std::function<void()> action_;
};

}  // namespace

double measure_copy_bandwidth(const quern_plugin_api& api, quern_device* device, const DeviceInfo& info) {
  if (info.caps & QUERN_CAP_HOST_MEMORY) return 0;
  const bool synchronous = info.caps & QUERN_CAP_SYNCHRONOUS;
  if (!api.buffer_create || !api.buffer_destroy || !api.copy) return 0;
  if (!synchronous && (!api.queue_create || !api.queue_destroy || !api.fence_create || !api.fence_destroy || !api.fence_wait)) return 0;

  std::uint64_t bytes = copy_bytes;
  if (info.max_allocation) bytes = std::min(bytes, info.max_allocation / 4);
  quern_buffer_options options{};
  options.header = {sizeof options, QUERN_TYPE_BUFFER_OPTIONS, nullptr};
  options.usage = QUERN_USAGE_SCRATCH;
  quern_buffer* from = nullptr;
  quern_buffer* to = nullptr;
  quern_queue* queue = nullptr;
  quern_fence* fence = nullptr;
  // Destroyed in reverse order: fence and queue before the buffers.
  const Undo free_buffers([&] {
    if (from) api.buffer_destroy(from, nullptr);
    if (to) api.buffer_destroy(to, nullptr);
  });
  const Undo free_queue([&] {
    if (fence) api.fence_destroy(fence, nullptr);
    if (queue) api.queue_destroy(queue, nullptr);
  });
  if (api.buffer_create(device, &options, bytes, &from, nullptr) != QUERN_OK || !from) return from = nullptr, 0;
  if (api.buffer_create(device, &options, bytes, &to, nullptr) != QUERN_OK || !to) return to = nullptr, 0;
  if (!synchronous) {
    if (api.queue_create(device, QUERN_QUEUE_COMPUTE, &queue, nullptr) != QUERN_OK || !queue) return queue = nullptr, 0;
    if (api.fence_create(device, 0, 0, &fence, nullptr) != QUERN_OK || !fence) return fence = nullptr, 0;
  }
  const quern_span source{from, nullptr, 0, bytes};
  const quern_span destination{to, nullptr, 0, bytes};
  double best = 0;
  for (std::uint64_t round = 1; round <= 4; ++round) {  // the first warms up
    const quern_point point{fence, round};
    quern_sync sync{};
    sync.header = {sizeof sync, QUERN_TYPE_SYNC, nullptr};
    if (fence) sync.signal = {&point, 1, sizeof point};
    const auto start = std::chrono::steady_clock::now();
    if (api.copy(device, queue, &destination, &source, bytes, &sync, nullptr) != QUERN_OK) return 0;
    if (fence && api.fence_wait(device, &sync.signal, 0, limit_nanoseconds, nullptr) != QUERN_OK) return 0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round > 1 && took.count() > 0) best = std::max(best, 2.0 * static_cast<double>(bytes) / took.count());
  }
  return best;
}

}  // namespace quern::loader
