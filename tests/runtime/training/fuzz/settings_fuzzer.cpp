// libFuzzer target: any bytes as settings.
//
//   JSON, up to the first zero byte
//   overrides, each up to a zero byte
//
// Holds: nothing but SettingsError escapes, and it has a text; what is taken is within the ranges that the trainer relies on.
#include "quern/training/settings_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::string> parts_of(std::string_view bytes) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    parts.emplace_back(bytes.substr(0, end));
    if (end == bytes.size()) return parts;
    bytes.remove_prefix(end + 1);
  }
}

void check(const quern::training::Settings& settings) {
  require(!settings.base_model.empty());
  require(std::isfinite(settings.learning_rate) && settings.learning_rate > 0);
  require(settings.lora_r > 0 && std::isfinite(settings.lora_alpha) && settings.lora_alpha > 0);
  require(settings.micro_batch_size > 0 && settings.gradient_accumulation_steps > 0);
  require(settings.adapter == quern::training::Adapter::none || !settings.lora_target_modules.empty());
  for (const auto& dataset : settings.datasets) require(!dataset.path.empty());
  for (const std::uint64_t step : {0, 1, 50, 99, 100}) {
    const double rate = quern::training::exact_rate(settings.schedule(100), step);
    require(std::isfinite(rate) && rate >= 0 && rate <= settings.learning_rate * (1 + 1e-9));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> parts = parts_of({reinterpret_cast<const char*>(data), size});
  const std::string json = std::move(parts.front());
  parts.erase(parts.begin());
  try {
    const auto parsed = quern::training::parse_settings(json, parts);
    check(parsed.settings);
    require(!quern::training::resolved_file(parsed.settings).empty());
  } catch (const quern::training::SettingsError& error) { require(*error.what() != '\0'); }
  return 0;
}
