// The configuration file: `key = value` lines, `#` comments.
//
// Keys are those of settings.hpp, and flags that flag_words.hpp marks; `-` and `_` are the same in them. A line [MODEL] begins a
// section: the flags below it are for that model alone. Files are read whole before anything is
// used, so a bad line is an error and never half a configuration.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

/// The value of an environment variable; nothing where it is unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// The environment of this process.
std::optional<std::string> process_environment(const char* name);

struct ConfigValue {
  std::string value;
  std::string origin;  // "/etc/quern/quern.conf:3"
};
using Config = std::map<std::string, ConfigValue>;  // key with '_' -> value

/// The key in a Config of `key` in the section [model].
std::string section_key(const std::string& model, const std::string& key);

/// The names under which a model may have a section, nearest first: as given, its file's name, that without .gguf, owner/name.
std::vector<std::string> section_names(const std::string& model);

/// Parses one file's text; `name` is for messages. Throws Failure(exit_usage) with name and line for a line
/// that is not `key = value`, an unknown key or a key given twice.
Config parse_config(std::string_view text, const std::string& name);

/// Where configuration is looked for, strongest first: $XDG_CONFIG_HOME/quern/quern.conf (without that variable
/// $HOME/.config/...), then <system folder>/quern/quern.conf.
std::vector<std::string> config_paths(const Environment& environment, const std::string& system_folder = "/etc");

/// Reads those of the files that exist; a key in an earlier file wins. Throws Failure(exit_usage) as
/// parse_config, and for a file that exists and cannot be read.
Config read_config(const std::vector<std::string>& paths);

}  // namespace quern::cli
