#include "config.hpp"

#include "failure.hpp"
#include "settings.hpp"

#include "quern/base/files.hpp"
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

std::string known_keys() {
  std::string keys;
  for (const Setting& setting : all_settings()) keys += (keys.empty() ? "" : ", ") + std::string(setting.key);
  return keys;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  return std::string(value);
}

Config parse_config(std::string_view text, const std::string& name) {
  Config config;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string origin = name + ":" + std::to_string(number);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      throw Failure(exit_usage, origin + ": " + in_quotes(line, 200) + " is not a line of the form key = value");
    std::string key(trimmed(line.substr(0, equals)));
    std::ranges::replace(key, '-', '_');
    if (find_setting(key) == nullptr)
      throw Failure(exit_usage, origin + ": unknown key " + in_quotes(key, 200) + "; the keys are " + known_keys());
    if (!config.emplace(key, ConfigValue{std::string(trimmed(line.substr(equals + 1))), origin}).second)
      throw Failure(exit_usage, origin + ": '" + key + "' was given before at " + config[key].origin);
  }
  return config;
}

std::vector<std::string> config_paths(const Environment& environment, const std::string& system_folder) {
  std::vector<std::string> paths;
  const std::string file = "/quern/quern.conf";
  if (const auto folder = environment("XDG_CONFIG_HOME"); folder && folder->front() == '/')
    paths.push_back(*folder + file);
  else if (const auto home = environment("HOME"))
    paths.push_back(*home + "/.config" + file);
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
