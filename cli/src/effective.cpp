#include "effective.hpp"

#include "engine.hpp"
#include "model_path.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

bool has_flag(const CommandLine& line, const char* flag) {
  return std::ranges::find(line.flags, flag, &FlagState::flag) != line.flags.end();
}

void ask_devices(const Settings& settings, EffectiveDefaults& defaults) {
  const quern_runtime_options options = settings.options();  // without a log: what is doubtful is for the verbs to say
  const auto runtime = make<Runtime>(quern_runtime_create, &options);
  const auto list = make<DeviceList>(quern_runtime_devices, runtime.get());
  const quern_device_list* devices = list.get();
  for (std::uint64_t at = 0; at < quern_device_list_count(devices); ++at) {
    const auto device = get<quern_device_entry>(quern_device_list_entry, devices, at);
    if (device.selected == 0) continue;
    defaults["--backend"] = device.backend;
    defaults["--device"] = device.name;
    return;
  }
}

void ask_model(const std::string& path, EffectiveDefaults& defaults) {
  quern_estimate* made = nullptr;
  check(quern_estimate_file(nullptr, path.c_str(), nullptr, &made), path);
  const Estimate owner(made);
  const quern_estimate* handle = made;
  defaults["--context"] = std::to_string(get<quern_estimate_info>(quern_estimate_get_info, handle).context);
}

/// A demand that cannot be met or a file that is none is no reason to show nothing.
template <typename Ask>
void where_possible(Ask ask) {
  try {
    ask();
  } catch (const Failure&) {}
}

}  // namespace

EffectiveDefaults effective_defaults(CommandLine line, const Settings& settings) {
  EffectiveDefaults defaults = folder_defaults(process_environment);
  std::uint32_t processors = 0;
  if (quern_usable_processors(&processors) == QUERN_OK) defaults["--threads"] = std::to_string(processors);
  if (has_flag(line, "--device")) where_possible([&] { ask_devices(settings, defaults); });
  const std::string* model = line.model();
  if (has_flag(line, "--context") && model != nullptr && !model->empty())
    where_possible([&] { ask_model(model_path(*model, settings, {}), defaults); });
  return defaults;
}

}  // namespace quern::cli
