// See queue_proof.hpp.
#include "queue_proof.hpp"

#include "negotiate.hpp"
#include "quern/graph/error.hpp"

namespace quern::loader {

Verdict prove_queue(const Plugin::Parts& plugin, std::uint32_t index, quern_device* device) {
  const quern_plugin_api& api = plugin.api;
  quern_queue* queue = nullptr;
  quern_fence* fence = nullptr;
  ErrorBuffer error;
  std::string thrown;
  const char* lacks = "queue";
  const auto call = [&](const char* name, auto&& function, std::string& words) { return guarded(*plugin.target, name, function, words); };
  quern_status status = call(
      call_name<&quern_plugin_api::queue_create>, [&] { return api.queue_create(device, QUERN_QUEUE_COMPUTE, &queue, error.get()); },
      thrown);
  if (status != QUERN_OK) queue = nullptr;
  if (status == QUERN_OK) {
    lacks = "fence";
    status = call(
        call_name<&quern_plugin_api::fence_create>, [&] { return api.fence_create(device, 0, 0, &fence, error.get()); }, thrown);
    if (status != QUERN_OK) fence = nullptr;
  }
  if (status == QUERN_OK) {
    lacks = "fence that can be waited for";
    const quern_point begin{fence, 0};
    const quern_array points{&begin, 1, sizeof begin};
    status = call(
        call_name<&quern_plugin_api::fence_wait>, [&] { return api.fence_wait(device, &points, 0, 1'000'000'000, error.get()); }, thrown);
  }
  std::string ignored;
  if (fence)
    call(
        call_name<&quern_plugin_api::fence_destroy>, [&] { return api.fence_destroy(fence, nullptr); }, ignored);
  if (queue)
    call(
        call_name<&quern_plugin_api::queue_destroy>, [&] { return api.queue_destroy(queue, nullptr); }, ignored);
  if (status == QUERN_OK && queue && fence) return {};
  const std::string why = !thrown.empty() ? thrown : status == QUERN_OK ? "the answer was ok, without a handle" : error.words(status);
  return {code::device_not_driven,
          concat(plugin.id, ":", index, ": cannot be driven: it is not synchronous, and makes no ", lacks, ": ", why),
          "install another version of the plugin, or tell its author", error.text()};
}

}  // namespace quern::loader
