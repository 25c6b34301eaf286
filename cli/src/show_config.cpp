#include "show_config.hpp"

#include "flag_words.hpp"

#include <algorithm>
#include <filesystem>

namespace quern::cli {
namespace {

const char* name_of(Origin origin) {
  switch (origin) {
    case Origin::flag: return "flag";
    case Origin::environment: return "environment";
    case Origin::file: return "file";
    default: return "default";
  }
}

/// A flag's value; a setting's is the strongest of all that may give one.
GivenValue effective(const FlagState& state, const CommandLine& line, const Environment& environment, const Config& config,
                     const EffectiveDefaults& defaults) {
  const auto standard = defaults.find(state.flag);
  if (state.setting == nullptr) {
    GivenValue given = state.given;
    if (given.origin == Origin::standard && standard != defaults.end()) given.value = standard->second;
    return given;
  }
  GivenValue found = strongest_value(*state.setting, line.settings, environment, config);
  if (found.origin == Origin::flag && state.given.origin != Origin::flag) found.where = "--verbose";  // which sets the log
  if (state.setting->kind == SettingKind::boolean && found.origin != Origin::standard) {
    const auto value = parse_boolean(found.value);
    if (value) found.value = *value ? "on" : "off";
  }
  if (found.origin == Origin::standard && std::string_view(state.setting->key) == "hub_cache") {
    if (const auto home = environment("HF_HOME")) return {*home + "/hub", Origin::environment, "HF_HOME"};
  }
  if (found.origin == Origin::standard && standard != defaults.end()) found.value = standard->second;
  return found;
}

/// Its key in quern.conf; null for a flag that the file does not give.
Json key_of(const FlagState& state) {
  if (state.setting != nullptr) return state.setting->key;
  return in_file(state.flag) ? Json(file_key(state.flag)) : Json();
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text + "  ";
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

EffectiveDefaults folder_defaults(const Environment& environment) {
  EffectiveDefaults defaults;
  std::string caches;
  if (const auto folder = environment("XDG_CACHE_HOME")) caches = *folder;
  else if (const auto home = environment("HOME")) caches = *home + "/.cache";
  if (caches.empty()) return defaults;
  defaults["--cache-dir"] = caches + "/quern";
  defaults["--hub-cache"] = caches + "/huggingface/hub";
  return defaults;
}

Json config_json(const CommandLine& line, const Environment& environment, const Config& config, const std::vector<std::string>& files,
                 const EffectiveDefaults& defaults) {
  Json settings = Json::array(), listed = Json::array();
  for (const FlagState& state : line.flags) {
    const GivenValue given = effective(state, line, environment, config, defaults);
    settings.push_back({{"flag", state.flag},
                        {"variable", state.variable},
                        {"key", key_of(state)},
                        {"value", given.value},
                        {"origin", name_of(given.origin)},
                        {"where", given.where}});
  }
  for (const std::string& file : files) listed.push_back({{"path", file}, {"exists", exists(file)}});
  return {{"verb", line.verb_name.empty() ? Json() : Json(line.verb_name)}, {"settings", settings}, {"files", listed}};
}

std::string config_page(const CommandLine& line, const Environment& environment, const Config& config,
                        const std::vector<std::string>& files, const EffectiveDefaults& defaults) {
  std::vector<GivenValue> values;
  std::size_t flag_width = 0, value_width = 0;
  for (const FlagState& state : line.flags) {
    values.push_back(effective(state, line, environment, config, defaults));
    values.back().value = printable(values.back().value);
    flag_width = std::max(flag_width, state.flag.size());
    value_width = std::max(value_width, std::min<std::size_t>(values.back().value.size(), 40));
  }
  std::string page;
  for (std::size_t at = 0; at < values.size(); ++at) {
    const GivenValue& given = values[at];
    page += padded(line.flags[at].flag, flag_width) + padded(given.value, value_width) + name_of(given.origin);
    if (given.origin == Origin::environment || given.origin == Origin::file || given.where != line.flags[at].flag)
      page += given.where.empty() ? "" : " " + printable(given.where);
    page += "\n";
  }
  page += "\n";
  for (const std::string& file : files) page += printable(file) + (exists(file) ? "" : " (does not exist)") + "\n";
  return page;
}

}  // namespace quern::cli
