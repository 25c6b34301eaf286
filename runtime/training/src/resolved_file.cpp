// The resolved file: all settings, by our names, as they hold in a run.
#include "quern/training/settings_file.hpp"

#include "setting_rows.hpp"
#include "yaml_text.hpp"

#include <algorithm>

namespace quern::training {
namespace {

void add_datasets(std::string& out, std::string_view key, const std::vector<DatasetSettings>& datasets) {
  out += concat(key, datasets.empty() ? ": []\n" : ":\n");
  for (const DatasetSettings& dataset : datasets) {
    const char* lead = "  - ";
    for (const DatasetRow& row : dataset_rows()) {
      const Json value = row.show(dataset);
      if (value.is_null()) continue;
      out += concat(lead, row.name, ": ", yaml_value(value), "\n");
      lead = "    ";
    }
  }
}

/// Other names of a value that another row shows, and settings of adapters where there is none.
bool is_left_out(const SettingRow& row, const Settings& settings) {
  if (row.name == "lora_target_linear" || row.name == "chat_template_jinja" || row.name == "cosine_min_lr_ratio") return true;
  return settings.adapter == Adapter::none && (row.name.starts_with("lora_") || row.name.starts_with("peft_"));
}

}  // namespace

std::string resolved_file(const Settings& settings, std::span<const std::string> comments) {
  std::string out;
  for (std::string line : comments) {
    std::ranges::replace_if(
        line, [](unsigned char c) { return c < ' '; }, ' ');  // a line break would end the comment
    out += concat("# ", line, "\n");
  }
  for (const SettingRow& row : setting_rows()) {
    if (row.name == "val_set_size") {  // the data stand in front of what is taken from them
      add_datasets(out, "datasets", settings.datasets);
      add_datasets(out, "test_datasets", settings.test_datasets);
    }
    if (is_left_out(row, settings)) continue;
    const Json value = row.show(settings);
    out += value.is_null() ? concat(row.name, ": null  # ", row.standard, "\n") : concat(row.name, ": ", yaml_value(value), "\n");
  }
  return out;
}

}  // namespace quern::training
