// See loader_settings.hpp.
#include "worker/loader_settings.hpp"

#include <stdexcept>

namespace quern::conformance {

std::string plugin_id(const std::filesystem::path& file) {
  const std::string name = file.filename().string(), head = "libbackend_", tail = ".so";
  if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
    throw std::invalid_argument("--plugin " + file.string() + ": a plugin's file is named libbackend_<id>.so");
  return name.substr(head.size(), name.size() - head.size() - tail.size());
}

loader::Settings loader_settings(const Selection& selection) {
  loader::Settings settings = loader::settings_from_environment();
  std::vector<std::string> directories, ids;
  for (const std::string& file : selection.plugins) {
    const std::filesystem::path path = std::filesystem::absolute(file);
    ids.push_back(plugin_id(path));
    if (!std::filesystem::exists(path)) throw std::invalid_argument("--plugin " + file + ": there is no such file");
    directories.push_back(path.parent_path().string());
  }
  if (!directories.empty()) settings.directories.set(directories, "--plugin");
  if (!ids.empty()) settings.backends.set(ids, "--plugin");
  if (!selection.backend.empty()) settings.backends.set(loader::parse_backends(selection.backend, "--backend"), "--backend");
  if (!selection.device.empty()) settings.device.set(selection.device, "--device");
  if (selection.threads != 0) settings.threads.set(selection.threads, "--threads");
  for (const auto& [key, value] : selection.plugin_options) settings.options[key] = value;
  return settings;
}

}  // namespace quern::conformance
