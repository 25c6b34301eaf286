// Settings from YAML, as `quern train` reads them, and the texts of refusals.
#pragma once

#include "yaml_file.hpp"

#include "quern/training/settings.hpp"

#include <string>
#include <vector>

namespace quern::training {

inline ParsedSettings parsed(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const cli::YamlFile file = cli::parse_yaml(yaml, "cfg.yaml");
  return parse_settings(file.json, overrides, parse_places(cli::places_json(file, "cfg.yaml")));
}

/// What the least file needs, in one line.
inline const std::string least = "{base_model: m.gguf, learning_rate: 1e-4}";

/// The file with `lines` behind what is required.
inline ParsedSettings with(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return parsed("base_model: m.gguf\nlearning_rate: 1e-3\n" + lines, overrides);
}

struct Refusal {
  std::string text, path;
};

/// Empty where the settings are taken.
inline Refusal refusal_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parsed(yaml, overrides);
  } catch (const SettingsError& error) { return {error.what(), error.path()}; }
  return {};
}

/// Of `lines` behind what is required, which is two lines.
inline std::string refusal_with(const std::string& lines, const std::vector<std::string>& overrides = {}) {
  return refusal_of("base_model: m.gguf\nlearning_rate: 1e-3\n" + lines, overrides).text;
}

}  // namespace quern::training
