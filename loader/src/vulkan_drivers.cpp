// See vulkan_drivers.hpp.
#include "vulkan_drivers.hpp"

#include "codes.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "shared_libraries.hpp"
#include "quern/graph/folder.hpp"
#include "quern/graph/json.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

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
  for (const std::string& name : names_in(folder))
    if (fs::path(name).extension() == ".json") to.push_back(folder + "/" + name);
}

std::vector<std::string> manifests(const Settings& settings) {
  std::vector<std::string> paths;
  add_list(paths, "VK_DRIVER_FILES");
  if (paths.empty()) add_list(paths, "VK_ICD_FILENAMES");
  if (!paths.empty()) return paths;
  add_list(paths, "VK_ADD_DRIVER_FILES");
  for (const std::string& folder :
       {settings.etc_root + "/xdg", settings.etc_root, settings.usr_root + "/local/share", settings.usr_root + "/share"})
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
  std::string text;
  const base::FileProblem problem = base::read_file(path, text, {.most = 1 << 16});
  const Json manifest = Json::parse(text).value_or(Json());
  const bool is_object = manifest.is_object();
  const Json* icd = manifest.find("ICD");
  const Json* library = icd == nullptr ? nullptr : icd->find("library_path");
  if (library == nullptr || library->text() == nullptr) {
    refuse(driver, code::manifest_broken,
           problem ? problem.text
                   : concat(path, text.empty() ? ": is empty"
                                  : !is_object ? ": is not JSON"
                                               : ": has no ICD.library_path"),
           "install the package of that Vulkan driver again, or remove the file");
    return driver;
  }
  if (const Json* version = icd->find("api_version"); version != nullptr && version->text() != nullptr)
    driver.api_version = *version->text();
  driver.library = *library->text();
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
