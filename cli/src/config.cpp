#include "config.hpp"

#include "failure.hpp"
#include "flag_words.hpp"
#include "settings.hpp"

#include "quern/base/files.hpp"
#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace quern::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string> keys_of_flags() {
  std::vector<std::string> keys;
  for (const FlagWords& row : all_flag_words())
    if (row.in_file == InFile::yes) keys.push_back(file_key(row.flag));
  return keys;
}

/// Keys that may stand in a section, or above all sections.
std::vector<std::string> known_keys(bool in_section) {
  std::vector<std::string> keys;
  if (!in_section)
    for (const Setting& setting : all_settings()) keys.push_back(setting.key);
  for (std::string& key : keys_of_flags()) keys.push_back(std::move(key));
  return keys;
}

void require_key(const std::string& key, bool in_section, const std::string& origin) {
  const std::vector<std::string> keys = known_keys(in_section);
  if (std::ranges::find(keys, key) != keys.end()) return;
  if (in_section && find_setting(key) != nullptr)
    throw Failure(exit_usage, origin + ": " + in_quotes(key, 200) + " is not of one model; put it above the first [MODEL]");
  std::string list;
  for (const std::string& one : keys) list += (list.empty() ? "" : ", ") + one;
  throw Failure(exit_usage, origin + ": unknown key " + in_quotes(key, 200) + did_you_mean(key, keys) + "; the keys are " + list);
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return {};
  return std::string(value);
}

Config parse_config(std::string_view text, const std::string& name) {
  Config config;
  std::string section;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string origin = name + ":" + std::to_string(number);
    if (line.front() == '[') {
      section = std::string(trimmed(line.substr(1, line.size() - std::min<std::size_t>(line.size(), 2))));
      if (line.back() != ']' || section.empty())
        throw Failure(exit_usage, origin + ": " + in_quotes(line, 200) + " is not a line of the form [MODEL]");
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      throw Failure(exit_usage, origin + ": " + in_quotes(line, 200) + " is not a line of the form key = value");
    std::string key(trimmed(line.substr(0, equals)));
    std::ranges::replace(key, '-', '_');
    require_key(key, !section.empty(), origin);
    if (!section.empty()) key = section_key(section, key);
    if (!config.emplace(key, ConfigValue{std::string(trimmed(line.substr(equals + 1))), origin}).second)
      throw Failure(exit_usage, origin + ": '" + key + "' was given before at " + config[key].origin);
  }
  return config;
}

std::string section_key(const std::string& model, const std::string& key) { return "[" + model + "] " + key; }

std::vector<std::string> section_names(const std::string& model) {
  std::vector<std::string> names{model};
  const auto add = [&names](std::string name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  const std::string file = model.substr(model.find_last_of('/') + 1);
  add(file);
  if (file.ends_with(".gguf")) add(file.substr(0, file.size() - 5));
  if (std::ranges::count(model, '/') == 1) add(model.substr(0, model.find_first_of(":@")));
  return names;
}

std::vector<std::string> config_paths(const Environment& environment, const std::string& system_folder) {
  std::vector<std::string> paths;
  const std::string file = "/quern/quern.conf";
  if (const auto folder = environment("XDG_CONFIG_HOME"); folder && folder->front() == '/') paths.push_back(*folder + file);
  else if (const auto home = environment("HOME")) paths.push_back(*home + "/.config" + file);
  paths.push_back(system_folder + file);
  return paths;
}

Config read_config(const std::vector<std::string>& paths) {
  Config config;
  for (const std::string& path : paths) {
    std::error_code ignored;
    // A link to nowhere is a mistake to tell of, not a file that is not there.
    if (!std::filesystem::exists(path, ignored) && base::dangling_target(path).empty()) continue;
    std::string text;
    if (const base::FileProblem problem = base::read_file(path, text, {.most = 1 << 20})) throw Failure(exit_usage, problem.text);
    config.merge(parse_config(text, path));
  }
  return config;
}

}  // namespace quern::cli
