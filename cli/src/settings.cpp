#include "settings.hpp"

#include "failure.hpp"
#include "numbers.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace quern::cli {
namespace {

using enum SettingKind;

constexpr Setting settings_table[] = {
    {"backend", "QUERN_BACKEND", "--backend", "NAMES", "demand these backends, in this order: cuda or cuda,cpu", "the best that works",
     text},
    {"backend_disable", "QUERN_BACKEND_DISABLE", "--backend-disable", "NAMES", "never open these backends", "none", text},
    {"device", "QUERN_DEVICE", "--device", "DEVICE", "demand this device: cuda:0, a PCI address or a UUID", "the best that works", text},
    {"memory", "QUERN_MEMORY", "--memory", "LIMITS", "memory limits per device: cuda:0=8G,cpu=512M", "no limit", memory},
    {"threads", "QUERN_THREADS", "--threads", "N", "CPU threads", "one for each usable processor", count},
    {"fallback", "QUERN_FALLBACK", "--fallback", "auto|warn|strict", "what to do when a device lacks a part of the model", "warn",
     fallback},
    {"deterministic", "QUERN_DETERMINISTIC", "--deterministic", nullptr,
     "the same bits for any batch and thread count, with f16 and f32 weights too", "off", boolean},
    {"force_kernel", "QUERN_FORCE_KERNEL", "--force-kernel", "BACKEND:FAMILY", "one kernel family, for tests: cpu:avx2",
     "the best that works", text},
    {"backend_path", "QUERN_BACKEND_PATH", "--backend-path", "FOLDERS", "plugin folders instead of the default ones",
     "quern/backends-1 beside the library", text},
    {"backend_extra_path", "QUERN_BACKEND_EXTRA_PATH", "--backend-extra-path", "FOLDERS", "plugin folders in front of the others", "none",
     text},
    {"allow_dev_plugins", "QUERN_ALLOW_DEV_PLUGINS", "--allow-dev-plugins", nullptr, "accept plugins built from other development headers",
     "off", boolean},
    {"probe_in_process", "QUERN_PROBE_IN_PROCESS", "--probe-in-process", nullptr,
     "start no processes to prove plugins; one that crashes then ends the program", "off", boolean},
    {"cache_dir", "QUERN_CACHE_DIR", "--cache-dir", "FOLDER", "where probe results, packed weights and models from URLs are kept",
     "$XDG_CACHE_HOME/quern", text, for_all},
    {"weights_cache", "QUERN_WEIGHTS_CACHE", "--weights-cache", "off|on|verify",
     "keep packed weights in the cache folder, for a faster start", "off", weights_cache},
    {"weights_cache_limit", "QUERN_WEIGHTS_CACHE_LIMIT", "--weights-cache-limit", "BYTES",
     "the most that these files may take: 32G, or 0 for no limit", "64G", limit},
    {"template_seconds", "QUERN_TEMPLATE_SECONDS", "--template-seconds", "N", "CPU seconds that the model's chat template may take", "2",
     count, for_models},
    {"log", "QUERN_LOG", "--log", "LEVEL", "trace, debug, info, warn, error or off", "warn", log_level, for_all},
    {"hub_cache", "HF_HUB_CACHE", "--hub-cache", "FOLDER", "where models from the hub are kept",
     "hub in HF_HOME, or else $XDG_CACHE_HOME/huggingface/hub", text, for_models | for_hub},
    {"hub_endpoint", "HF_ENDPOINT", "--hub-endpoint", "URL", "the hub", "https://huggingface.co", text, for_hub},
    {"hub_tries", "QUERN_HUB_TRIES", "--hub-tries", "N", "failures in a row until a download gives up", "6", count, for_hub},
    {"hub_timeout", "HF_HUB_DOWNLOAD_TIMEOUT", "--hub-timeout", "SECONDS", "without a byte that count as a failure", "30", count, for_hub},
    {"hub_rate", "QUERN_HUB_RATE", "--hub-rate", "BYTES", "a second, over the timeout, below which a download counts as failed", "1024",
     count, for_hub},
    {"hub_limit", "QUERN_HUB_LIMIT", "--hub-limit", "BYTES", "the most that one file may have: 512G, or 0 for no limit", "512G", limit,
     for_hub},
    {"offline", "HF_HUB_OFFLINE", "--offline", nullptr, "use what is in the cache and ask no network", "off", boolean, for_hub},
};

/// A value with the words that name its origin in a message.
struct Given {
  std::string value;
  std::string origin;
  bool from_environment = false;
};

std::optional<Given> strongest(const Setting& setting, const FlagValues& flags, const Environment& environment, const Config& config) {
  const GivenValue found = strongest_value(setting, flags, environment, config);
  if (found.origin == Origin::standard) return {};
  return Given{found.value, found.origin == Origin::file ? found.where + ": " + setting.key : found.where,
               found.origin == Origin::environment};
}

[[noreturn]] void refuse(const Given& given, const std::string& expected) {
  throw Failure(exit_usage, given.origin + ": " + in_quotes(given.value, 200) + " is not " + expected);
}

bool require_boolean(const Given& given) {
  if (const auto value = parse_boolean(given.value)) return *value;
  refuse(given, "1 or 0");
}

/// The bytes of all limits together.
std::uint64_t check_memory(const Given& given) {
  std::string_view rest = given.value;
  std::uint64_t sum = 0;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view limit = rest.substr(0, comma);
    const std::size_t equals = limit.find('=');
    const auto bytes = equals == std::string_view::npos ? std::nullopt : parse_bytes(limit.substr(equals + 1));
    if (bytes == std::uint64_t{0}) refuse(given, "a list of limits above 0; --backend-disable leaves a backend out");
    if (equals == 0 || !bytes) refuse(given, "a list of limits such as cuda:0=8G,cpu=512M (near " + in_quotes(limit, 60) + ")");
    sum += std::min(*bytes, UINT64_MAX - sum);
    if (comma == rest.size()) return sum;
    rest.remove_prefix(comma + 1);
  }
}

void check_fallback(const Given& given) {
  if (given.value != "auto" && given.value != "warn" && given.value != "strict") refuse(given, "auto, warn or strict");
}

void check_weights_cache(const Given& given) {
  static constexpr std::array words = {"off", "on", "verify", "0", "1"};
  if (std::ranges::find(words, given.value) == words.end()) refuse(given, "off, on or verify");
}

void check_limit(const Given& given) {
  if (given.value != "0" && !parse_bytes(given.value)) refuse(given, "a number of bytes such as 32G, or 0 for no limit");
}

std::uint32_t parse_number(const Given& given, std::uint64_t most, const std::string& unit) {
  const auto number = parse_count(given.value, most);
  if (!number || *number == 0) refuse(given, "a number of " + unit + " from 1 to " + std::to_string(most));
  return static_cast<std::uint32_t>(*number);
}

std::uint32_t parse_rate(const Given& given) {
  const auto bytes = parse_bytes(given.value);
  if (!bytes || *bytes == 0 || *bytes > UINT32_MAX) refuse(given, "a number of bytes a second above 0 and below 4G, such as 64K");
  return static_cast<std::uint32_t>(*bytes);
}

void apply_number(Settings& out, const std::string& key, const Given& given) {
  if (key == "threads") out.threads = parse_number(given, 4096, "threads");
  if (key == "hub_tries") out.hub_tries = parse_number(given, 1000, "tries");
  if (key == "template_seconds") out.template_seconds = parse_number(given, 86400, "seconds");
  if (key == "hub_rate") out.hub_rate = parse_rate(given);
  if (key == "hub_timeout") out.hub_timeout = parse_number(given, 86400, "seconds");
}

void apply_boolean(Settings& out, const std::string& key, const Given& given) {
  const bool value = require_boolean(given);
  if (key == "deterministic") out.deterministic = value ? QUERN_DETERMINISTIC_ON : QUERN_DETERMINISTIC_OFF;
  if (key == "allow_dev_plugins") out.allow_dev_plugins = value;
  if (key == "probe_in_process") out.probe_in_process = value;
  if (key == "offline") out.offline = value ? QUERN_OFFLINE_ON : QUERN_OFFLINE_OFF;
}

void apply_text(Settings& out, const std::string& key, const std::string& value) {
  if (key == "backend") out.backend = value;
  if (key == "backend_disable") out.backend_disable = value;
  if (key == "device") out.device = value;
  if (key == "backend_path") out.backend_path = value;
  if (key == "backend_extra_path") out.backend_extra_path = value;
  if (key == "memory") out.memory = value;
  if (key == "fallback") out.fallback = value;
  if (key == "force_kernel") out.force_kernel = value;
  if (key == "cache_dir") out.cache_dir = value;
  if (key == "weights_cache") out.weights_cache = value;
  if (key == "weights_cache_limit") out.weights_cache_limit = value;
  if (key == "hub_cache") out.hub_cache = value;
  if (key == "hub_endpoint") out.hub_endpoint = value;
  if (key == "hub_limit") out.hub_limit = value == "0" ? UINT64_MAX : parse_bytes(value).value_or(0);
}

const char* or_null(const std::string& value) { return value.empty() ? nullptr : value.c_str(); }

}  // namespace

std::span<const Setting> all_settings() { return settings_table; }

const Setting* find_setting(const std::string& key) {
  const auto found = std::ranges::find(settings_table, key, [](const Setting& s) { return std::string(s.key); });
  return found == std::end(settings_table) ? nullptr : &*found;
}

std::uint64_t sum_of_limits(const std::string& text) { return text.empty() ? 0 : check_memory({text, "--memory"}); }

GivenValue strongest_value(const Setting& setting, const FlagValues& flags, const Environment& environment, const Config& config) {
  if (const auto flag = flags.find(setting.key); flag != flags.end()) return {flag->second, Origin::flag, setting.flag};
  if (const auto value = environment(setting.variable)) return {*value, Origin::environment, setting.variable};
  if (const auto entry = config.find(setting.key); entry != config.end()) return {entry->second.value, Origin::file, entry->second.origin};
  return {setting.standard, Origin::standard, ""};
}

std::optional<bool> parse_boolean(std::string_view word) {
  static constexpr std::array<std::string_view, 4> yes = {"1", "true", "on", "yes"};
  static constexpr std::array<std::string_view, 4> no = {"0", "false", "off", "no"};
  if (std::ranges::find(yes, word) != yes.end()) return true;
  if (std::ranges::find(no, word) != no.end()) return false;
  return {};
}

std::optional<std::uint32_t> parse_log_level(std::string_view word) {
  static constexpr std::array<std::string_view, 6> words = {"trace", "debug", "info", "warn", "error", "off"};
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return {};
  return QUERN_LEVEL_TRACE + static_cast<std::uint32_t>(found - words.begin());
}

Settings resolve_settings(const FlagValues& flags, const Environment& environment, const Config& config) {
  Settings out;
  for (const Setting& setting : settings_table) {
    const auto given = strongest(setting, flags, environment, config);
    if (!given) continue;
    if (setting.kind == log_level) {
      const auto level = parse_log_level(given->value);
      if (!level) refuse(*given, "trace, debug, info, warn, error or off");
      out.log_level = *level;
      continue;
    }
    const bool ours = setting.key == std::string_view("template_seconds");  // the library does not read this variable
    if (given->from_environment && !ours) continue;
    if (given->value.empty()) refuse(*given, "a value");
    switch (setting.kind) {
      case count: apply_number(out, setting.key, *given); continue;
      case boolean: apply_boolean(out, setting.key, *given); continue;
      case memory: check_memory(*given); break;
      case fallback: check_fallback(*given); break;
      case weights_cache: check_weights_cache(*given); break;
      case limit: check_limit(*given); break;
      default: break;
    }
    apply_text(out, setting.key, given->value);
  }
  return out;
}

quern_runtime_options Settings::options() const {
  quern_runtime_options options{};
  options.struct_size = sizeof options;
  options.backend = or_null(backend);
  options.backend_disable = or_null(backend_disable);
  options.device = or_null(device);
  options.backend_path = or_null(backend_path);
  options.backend_extra_path = or_null(backend_extra_path);
  options.memory = or_null(memory);
  options.fallback = or_null(fallback);
  options.force_kernel = or_null(force_kernel);
  options.cache_dir = or_null(cache_dir);
  options.weights_cache = or_null(weights_cache);
  options.weights_cache_limit = or_null(weights_cache_limit);
  options.threads = threads;
  options.deterministic = deterministic;
  options.allow_dev_plugins = allow_dev_plugins ? 1 : 0;
  options.probe_in_process = probe_in_process ? 1 : 0;
  options.log_level = log_level;
  return options;
}

quern_hub_options Settings::hub_options() const {
  quern_hub_options options{};
  options.struct_size = sizeof options;
  options.endpoint = or_null(hub_endpoint);
  options.hub_cache = or_null(hub_cache);
  options.cache_dir = or_null(cache_dir);
  options.offline = offline;
  options.tries = hub_tries;
  options.timeout = hub_timeout;
  options.most_bytes = hub_limit;
  options.least_rate = hub_rate;
  return options;
}

}  // namespace quern::cli
