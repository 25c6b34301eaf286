// quern_runtime: options and environment into settings.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/loader/host_limits.hpp"

#include <cstdlib>
#include <filesystem>

using namespace quern;
using namespace quern::c_api;

namespace {

std::vector<std::string> split_paths(std::string_view text) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    if (colon > 0) {
      std::error_code failed;
      const std::filesystem::path path(text.substr(0, colon));
      const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
      if (failed == std::errc::not_enough_memory) throw std::bad_alloc();
      paths.push_back(failed ? path.string() : absolute.string());
    }
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return paths;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) items.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

std::uint32_t level_from_name(std::string_view name) {
  constexpr std::string_view names[] = {"trace", "debug", "info", "warn", "error", "off"};
  for (std::uint32_t i = 0; i < 6; ++i) {
    if (name == names[i]) return i + 1;
  }
  throw Error(QUERN_INVALID_ARGUMENT, concat("QUERN_LOG is ", in_quotes(name, 200), "; it takes trace, debug, info, warn, error or off"));
}

/// The variable, unless the caller ignores the environment; null or empty: not set.
const char* variable(const quern_runtime_options& o, const char* name) {
  if (o.ignore_environment != 0) return nullptr;
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

loader::Settings loader_settings(const quern_runtime_options& o) {
  loader::Settings s;
  if (o.ignore_environment != 0) {
    // The driver reads this one itself, so the loader has to know it too.
    loader::Environment environment = loader::process_environment();
    const auto keep = [](const auto& get) {
      return [get](const char* name) { return std::string_view(name) == "CUDA_VISIBLE_DEVICES" ? get(name) : nullptr; };
    };
    environment.get = keep(environment.get);
    environment.secure_get = keep(environment.secure_get);
    s = loader::settings_from_environment(environment);
  } else {
    s = loader::settings_from_environment();
  }
  if (o.backend != nullptr) s.backends.set(loader::parse_backends(o.backend, "backend"), "backend");
  if (o.backend_disable != nullptr) s.disabled.set(split_list(o.backend_disable), "backend_disable");
  if (o.device != nullptr) s.device.set(o.device, "device");
  if (o.backend_path != nullptr) s.backend_path.set(split_paths(o.backend_path), "backend_path");
  if (o.backend_extra_path != nullptr) s.extra_path.set(split_paths(o.backend_extra_path), "backend_extra_path");
  if (o.force_kernel != nullptr) s.force_kernel.set(loader::parse_force_kernel(o.force_kernel, "force_kernel"), "force_kernel");
  if (o.cache_dir != nullptr) s.cache_directory.set(o.cache_dir, "cache_dir");
  if (o.threads != 0) s.threads.set(o.threads, "threads");
  if (o.deterministic > QUERN_DETERMINISTIC_OFF) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("deterministic is ", o.deterministic, "; it takes QUERN_DETERMINISTIC_DEFAULT, _ON or _OFF"));
  }
  if (o.deterministic != QUERN_DETERMINISTIC_DEFAULT) { s.deterministic.set(o.deterministic == QUERN_DETERMINISTIC_ON, "deterministic"); }
  if (o.allow_dev_plugins != 0) s.allow_dev_plugins.set(true, "allow_dev_plugins");
  if (o.probe_in_process != 0) s.probe_in_process.set(true, "probe_in_process");
  return s;
}

}  // namespace

extern "C" {

quern_status quern_runtime_create(const quern_runtime_options* options, quern_runtime** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    const auto o = whole(options, "quern_runtime_options");
    runtime::RuntimeSettings settings;
    settings.loader = loader_settings(o);
    constexpr std::size_t longest_line = 8192;  // of the log; plugins and drivers write there too
    std::uint32_t level = o.log_level;
    if (level > QUERN_LEVEL_OFF) throw Error(QUERN_INVALID_ARGUMENT, concat("log_level is ", level));
    if (level == QUERN_LEVEL_DEFAULT) {
      const char* name = variable(o, "QUERN_LOG");
      level = name != nullptr ? level_from_name(name) : std::uint32_t{QUERN_LEVEL_INFO};
    }
    if (o.log != nullptr && level != QUERN_LEVEL_OFF) {
      auto mutex = std::make_shared<std::mutex>();
      settings.loader.log = [log = o.log, user = o.log_user, level, mutex](std::uint32_t at, std::string_view component,
                                                                           std::string_view text) {
        if (at + 1 < level) return;
        const Callback callback(true);  // ends behind the lock
        const std::scoped_lock lock(*mutex);
        log(user, at + 1, printable_start(component, longest_line).c_str(), printable_start(text, longest_line).c_str());
      };
    }
    if (o.memory != nullptr) {
      settings.memory_limits = runtime::parse_memory_limits(o.memory, "memory");
    } else if (const char* text = variable(o, "QUERN_MEMORY")) {
      settings.memory_limits = runtime::parse_memory_limits(text, "QUERN_MEMORY");
    }
    if (o.fallback != nullptr) {
      settings.fallback = runtime::parse_fallback(o.fallback, "fallback");
    } else if (const char* text = variable(o, "QUERN_FALLBACK")) {
      settings.fallback = runtime::parse_fallback(text, "QUERN_FALLBACK");
    }
    const auto text_of = [&](const char* option, const char* name, const char* option_name) -> std::pair<const char*, const char*> {
      return option != nullptr ? std::pair(option, option_name) : std::pair(variable(o, name), name);
    };
    if (const auto [text, from] = text_of(o.weights_cache, "QUERN_WEIGHTS_CACHE", "weights_cache"); text != nullptr) {
      settings.weights_cache.mode = runtime::parse_weights_cache(text, from);
    }
    if (const auto [text, from] = text_of(o.weights_cache_limit, "QUERN_WEIGHTS_CACHE_LIMIT", "weights_cache_limit"); text != nullptr) {
      settings.weights_cache.limit = runtime::parse_weights_cache_limit(text, from);
    }
    auto handle = std::make_unique<quern_runtime>();
    handle->runtime = std::make_shared<runtime::Runtime>(std::move(settings));
    *out = handle.release();
  });
}

void quern_runtime_release(quern_runtime* runtime) { Owner::release(runtime); }

quern_status quern_usable_processors(uint32_t* out) {
  return guarded<Needs::little>([&] {
    require(out, "out");
    *out = loader::usable_processors();
  });
}

quern_status quern_runtime_ready(quern_runtime* runtime) {
  return guarded([&] {
    require(runtime, "runtime");
    runtime->runtime->require_ready();
  });
}

}  // extern "C"
