// See vulkan_drivers.hpp.
#include "vulkan_drivers.hpp"

#include "codes.hpp"
#include "quern/graph/error.hpp"
#include "shared_libraries.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void add_list(std::vector<std::string>& to, const char* variable) {
  const char* text = std::getenv(variable);
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) to.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void add_folder(std::vector<std::string>& to, const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end && names.size() < 256; entry.increment(failed))
    if (entry->path().extension() == ".json") names.push_back(entry->path().string());
  std::ranges::sort(names);
  to.insert(to.end(), names.begin(), names.end());
}

std::vector<std::string> manifests(const Settings& settings) {
  std::vector<std::string> paths;
  add_list(paths, "VK_DRIVER_FILES");
  if (paths.empty()) add_list(paths, "VK_ICD_FILENAMES");
  if (!paths.empty()) return paths;
  add_list(paths, "VK_ADD_DRIVER_FILES");
  for (const std::string& folder : {settings.etc_root + "/xdg", settings.etc_root, settings.usr_root + "/local/share", settings.usr_root + "/share"})
    add_folder(paths, folder + "/vulkan/icd.d");
  return paths;
}

void refuse(VulkanDriver& driver, const char* code, std::string cause, std::string remedy) {
  driver.code = code;
  driver.cause = std::move(cause);
  driver.remedy = std::move(remedy);
}

VulkanDriver read_manifest(const std::string& path, const Settings& settings) {
  VulkanDriver driver;
  driver.manifest = path;
  std::ifstream in(path, std::ios::binary);
  std::string text(1 << 16, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  const json content = json::parse(text, nullptr, false);
  const json icd = content.is_object() ? content.value("ICD", json()) : json();
  const json library = icd.is_object() ? icd.value("library_path", json()) : json();
  if (!library.is_string()) {
    refuse(driver, code::manifest_broken,
           concat(path, text.empty() ? ": cannot be read, or is empty" : !content.is_object() ? ": is not JSON" : ": has no ICD.library_path"),
           "install the package of that Vulkan driver again, or remove the file");
    return driver;
  }
  if (const json version = icd.value("api_version", json()); version.is_string()) driver.api_version = version.get<std::string>();
  driver.library = library.get<std::string>();
  std::optional<FoundLibrary> found;
  if (driver.library.find('/') == std::string::npos) {
    found = find_library(driver.library, settings);
  } else {
    const fs::path named = driver.library.starts_with('/') ? fs::path(driver.library) : fs::path(path).parent_path() / driver.library;
    std::error_code none;
    if (fs::exists(named, none)) found = inspect_library(named.lexically_normal().string());
  }
  if (found) driver.library_path = found->path;
  if (!found)
    refuse(driver, code::manifest_library, concat(path, ": names the library ", driver.library, ", which is not there"),
           "install the package of that Vulkan driver again, or remove the file");
  else if (!found->verdict.ok())
    refuse(driver, code::library_broken, found->verdict.cause, "install the package of that Vulkan driver again");
  return driver;
}

}  // namespace

std::vector<VulkanDriver> list_vulkan_drivers(const Settings& settings) {
  std::vector<VulkanDriver> drivers;
  for (const std::string& path : manifests(settings)) drivers.push_back(read_manifest(path, settings));
  return drivers;
}

}  // namespace quern::loader
