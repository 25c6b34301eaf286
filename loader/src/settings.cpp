// Reads the environment into settings. Paths go through secure_getenv: in a setuid program they would let the
// caller insert code; filters and numbers cannot, and stay.
#include "quern/loader/settings.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

namespace quern::loader {
namespace {

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(by);
    std::string_view part = text.substr(0, end);
    while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
    while (!part.empty() && (part.back() == ' ' || part.back() == '\t')) part.remove_suffix(1);
    if (!part.empty()) parts.emplace_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool has_only(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || more.find(c) != std::string_view::npos;
  });
}

/// A comma-separated list of ids, or of globs over ids; each once.
std::vector<std::string> parse_ids(std::string_view text, std::string_view from, std::string_view more_characters) {
  std::vector<std::string> ids;
  for (const std::string& id : split(text, ',')) {
    if (!has_only(id, more_characters))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(from, " names ", in_quotes(id, 200), "; a backend id has the characters a-z 0-9 _ - (as in 'cpu', 'cuda,cpu')"));
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

class Reader {
 public:
  Reader(const Environment& environment, Settings& settings) : environment_(environment), settings_(settings) {}

  /// A value that is set and not empty.
  std::optional<std::string> value(const char* name) const {
    const char* found = environment_.get(name);
    return found && *found ? std::optional<std::string>(found) : std::nullopt;
  }

  /// The same for a path; what a setuid program may not believe is noted.
  const char* path(const char* name) const {
    const char* found = environment_.secure_get(name);
    if (!found && environment_.get(name) && std::string_view(name).starts_with("QUERN_"))
      settings_.ignored.push_back(concat(name,
                                         " is ignored because this program runs with more rights than its "
                                         "user (setuid, setgid or capabilities)"));
    return found;
  }

  std::vector<std::string> paths(const char* name) const {
    const char* found = path(name);
    return found ? split(found, ':') : std::vector<std::string>();
  }

 private:
  const Environment& environment_;
  Settings& settings_;
};

void read_cache_directory(const Reader& read, Settings& settings) {
  if (const char* own = read.path("QUERN_CACHE_DIR")) {  // empty: keep nothing
    if (*own && *own != '/')
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("QUERN_CACHE_DIR is ", in_quotes(own, 200), "; it takes an absolute path, or nothing to keep nothing"));
    settings.cache_directory.set(own, "QUERN_CACHE_DIR");
    return;
  }
  if (const char* xdg = read.path("XDG_CACHE_HOME"); xdg && *xdg == '/') settings.cache_directory.value = concat(xdg, "/quern");
  else if (const char* home = read.path("HOME"); home && *home == '/') settings.cache_directory.value = concat(home, "/.cache/quern");
}

}  // namespace

Environment process_environment() {
  return {[](const char* name) -> const char* { return std::getenv(name); },
          [](const char* name) -> const char* { return ::secure_getenv(name); }};
}

std::vector<std::string> parse_backends(std::string_view text, std::string_view from) { return parse_ids(text, from, ""); }

std::map<std::string, std::string> parse_force_kernel(std::string_view text, std::string_view from) {
  std::map<std::string, std::string> kernels;
  for (const std::string& row : split(text, ',')) {
    const std::size_t colon = row.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == row.size() || !has_only(row.substr(0, colon), ""))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(from, " is ", in_quotes(row, 200), "; it takes a backend and a kernel family, as in 'cpu:avx2'"));
    kernels[row.substr(0, colon)] = row.substr(colon + 1);
  }
  return kernels;
}

std::uint32_t parse_threads(std::string_view text, std::string_view from) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > 4096)
    throw Error(QUERN_INVALID_ARGUMENT, concat(from, " is ", in_quotes(text, 200), "; it takes a number of threads from 1 to 4096"));
  return count;
}

bool parse_switch(std::string_view text, std::string_view from) {
  for (const char* on : {"1", "true", "yes", "on"})
    if (text == on) return true;
  for (const char* off : {"", "0", "false", "no", "off"})
    if (text == off) return false;
  throw Error(QUERN_INVALID_ARGUMENT, concat(from, " is ", in_quotes(text, 200), "; it takes 1 or 0"));
}

Settings settings_from_environment(const Environment& environment) {
  Settings settings;
  const Reader read(environment, settings);
  if (const auto v = read.value("QUERN_BACKEND")) settings.backends.set(parse_backends(*v, "QUERN_BACKEND"), "QUERN_BACKEND");
  if (const auto v = read.value("QUERN_BACKEND_DISABLE"))
    settings.disabled.set(parse_ids(*v, "QUERN_BACKEND_DISABLE", "*?[]!"), "QUERN_BACKEND_DISABLE");
  if (const auto v = read.value("QUERN_DEVICE")) settings.device.set(*v, "QUERN_DEVICE");
  if (auto v = read.paths("QUERN_BACKEND_PATH"); !v.empty()) settings.backend_path.set(std::move(v), "QUERN_BACKEND_PATH");
  if (auto v = read.paths("QUERN_BACKEND_EXTRA_PATH"); !v.empty()) settings.extra_path.set(std::move(v), "QUERN_BACKEND_EXTRA_PATH");
  if (const auto v = read.value("QUERN_PROBE_IN_PROCESS"))
    settings.probe_in_process.set(parse_switch(*v, "QUERN_PROBE_IN_PROCESS"), "QUERN_PROBE_IN_PROCESS");
  if (const auto v = read.value("QUERN_ALLOW_DEV_PLUGINS"))
    settings.allow_dev_plugins.set(parse_switch(*v, "QUERN_ALLOW_DEV_PLUGINS"), "QUERN_ALLOW_DEV_PLUGINS");
  read_cache_directory(read, settings);
  if (const auto v = read.value("QUERN_THREADS")) settings.threads.set(parse_threads(*v, "QUERN_THREADS"), "QUERN_THREADS");
  if (const auto v = read.value("QUERN_FORCE_KERNEL"))
    settings.force_kernel.set(parse_force_kernel(*v, "QUERN_FORCE_KERNEL"), "QUERN_FORCE_KERNEL");
  if (const auto v = read.value("QUERN_DETERMINISTIC"))
    settings.deterministic.set(parse_switch(*v, "QUERN_DETERMINISTIC"), "QUERN_DETERMINISTIC");
  for (const char* name : {"AXOLOTL_FORCE_CPU", "CUDA_FORCE_CPU"})
    if (const auto v = read.value(name); v && parse_switch(*v, name)) settings.force_cpu.set(true, name);
  if (const char* v = environment.get("CUDA_VISIBLE_DEVICES")) settings.cuda_visible_devices.set(v, "CUDA_VISIBLE_DEVICES");
  return settings;
}

}  // namespace quern::loader
