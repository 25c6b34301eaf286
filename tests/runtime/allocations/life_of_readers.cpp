// Calls that read and write JSON and list folders: a plugin's kept probe result (the probes themselves run in the helper process), the device
// list, the file of a model, an estimate, a chat whose template has macros, the caches of pulled models.
#include "life.hpp"

namespace quern::test::allocations {
namespace {

class LifeOfReaders final : public Life {
 public:
  using Life::Life;

 private:
  void live_all() override {
    quern_runtime* runtime = nullptr;
    const quern_runtime_options options = runtime_options();
    if (step("quern_runtime_create", [&] { return quern_runtime_create(&options, &runtime); })) {
      quern_device_list* devices = nullptr;
      if (step("quern_runtime_devices", [&] { return quern_runtime_devices(runtime, &devices); }))
        text_of(
            "quern_device_list_json", [&](quern_text** text) { return quern_device_list_json(devices, text); }, false);  // free memory
      quern_device_list_release(devices);
    }
    quern_runtime_release(runtime);
    text_of("quern_show_json", [&](quern_text** text) { return quern_show_json(subject_.model.c_str(), text); });
    quern_estimate* estimate = nullptr;
    step("quern_estimate_file", [&] { return quern_estimate_file(nullptr, subject_.model.c_str(), nullptr, &estimate); });
    quern_estimate_release(estimate);
    quern_hub_options hub{};
    hub.struct_size = sizeof hub;
    hub.ignore_environment = 1;
    hub.hub_cache = subject_.hub.c_str();
    hub.cache_dir = subject_.cache.c_str();
    chat();
    text_of("quern_cached_models_json", [&](quern_text** text) { return quern_cached_models_json(&hub, text); });
    text_of("quern_find_model", [&](quern_text** text) { return quern_find_model("owner/name:Q8_0", &hub, text); });
    text_of("quern_find_model", [&](quern_text** text) { return quern_find_model(url_model, &hub, text); });
  }

  /// A template whose macros and blocks make scopes, which are left while memory lacks.
  void chat() {
    quern_vocabulary* words = nullptr;
    const quern_message message = {sizeof message, "user", "hi", 0};
    quern_text* rendered = nullptr;
    std::int32_t ids[256];
    std::uint64_t count = 0;
    if (step("quern_vocabulary_open", [&] { return quern_vocabulary_open(subject_.macro_model.c_str(), &words); }) &&
        step("quern_render_chat", [&] { return quern_render_chat(words, &message, 1, 0, &rendered); }) &&
        step("quern_tokenize_rendered", [&] { return quern_tokenize_rendered(words, rendered, 0, ids, 256, &count); })) {
      counting = false;
      results.ids.assign(ids, ids + count);
      counting = true;
    }
    quern_text_release(rendered);
    quern_vocabulary_release(words);
  }
};

}  // namespace

std::unique_ptr<Life> life_of_readers(const Subject& subject) { return std::make_unique<LifeOfReaders>(subject); }

}  // namespace quern::test::allocations
