// The settings of the runtime that a flag, a QUERN_* variable and a configuration key all can give.
//
// One table row each (settings.cpp); the flags, the configuration keys and the resolution come from it. Strength:
// flag, environment, file, default. A value from the environment is left to the library, which reads the same
// variables and names them in its messages.
#pragma once

#include "config.hpp"

#include "quern.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace quern::cli {

enum class SettingKind { text, memory, count, boolean, fallback, weights_cache, limit, log_level };

/// Which verbs have a setting's flag: those that open backends, those that take a MODEL, those that ask the hub.
enum SettingUse : unsigned { for_backends = 1, for_models = 2, for_hub = 4, for_all = 7 };

struct Setting {
  const char* key;       // of the configuration file
  const char* variable;  // of the environment
  const char* flag;
  const char* placeholder;  // in the help; null for a flag without value
  const char* help;
  const char* standard;  // what holds where nothing is given, in words
  SettingKind kind;
  unsigned uses = for_backends;
};

/// What a value came from, weakest first.
enum class Origin { standard, file, environment, flag };

/// The value that a setting or flag has, and where it came from: "--threads", "QUERN_THREADS", "/etc/quern/quern.conf:3".
struct GivenValue {
  std::string value;
  Origin origin = Origin::standard;
  std::string where;
};

std::span<const Setting> all_settings();
const Setting* find_setting(const std::string& key);

/// What the flags of a command line gave, by key. A flag without value gives "1".
using FlagValues = std::map<std::string, std::string>;

/// The settings of one run of the program. Text is empty, and numbers are 0, where the library is to choose.
struct Settings {
  std::string backend, backend_disable, device, backend_path, backend_extra_path, memory, fallback, force_kernel, cache_dir, weights_cache,
      weights_cache_limit, hub_endpoint, hub_cache;
  std::uint32_t threads = 0, hub_tries = 0, hub_timeout = 0, template_seconds = 0, hub_rate = 0;
  std::uint64_t hub_limit = 0;
  std::uint32_t offline = QUERN_OFFLINE_DEFAULT;
  std::uint32_t deterministic = QUERN_DETERMINISTIC_DEFAULT;
  bool allow_dev_plugins = false;
  bool probe_in_process = false;
  std::uint32_t log_level = QUERN_LEVEL_WARN;

  /// Options that point into this object. `log` is left null.
  quern_runtime_options options() const;
  quern_hub_options hub_options() const;
};

/// Throws Failure(exit_usage) for a value that cannot be read; the text has its origin and the value.
Settings resolve_settings(const FlagValues& flags, const Environment& environment, const Config& config);

/// The bytes of all limits of a flag such as --memory cuda:0=8G,cpu=512M together; 0 for an empty text. Throws Failure(exit_usage).
std::uint64_t sum_of_limits(const std::string& text);

/// The strongest value given for a setting; its default, in words, where none was.
GivenValue strongest_value(const Setting& setting, const FlagValues& flags, const Environment& environment, const Config& config);

/// "1" and "0" in their usual spellings; nothing for another word.
std::optional<bool> parse_boolean(std::string_view word);

/// QUERN_LEVEL_... of "trace", "debug", "info", "warn", "error", "off"; nothing for another word.
std::optional<std::uint32_t> parse_log_level(std::string_view word);

}  // namespace quern::cli
