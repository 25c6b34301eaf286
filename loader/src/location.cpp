// Finds plugins and helper from the place of the code itself: never from the current directory, PATH or
// LD_LIBRARY_PATH.
#include "location.hpp"

#include "quern/loader/loader.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> normal(const std::vector<fs::path>& paths) {
  std::vector<std::string> made;
  for (const fs::path& path : paths) {
    std::string text = path.lexically_normal().string();
    if (std::find(made.begin(), made.end(), text) == made.end()) made.push_back(std::move(text));
  }
  return made;
}

}  // namespace

std::string code_directory() {
  Dl_info info{};
  link_map* map = nullptr;
  const void* here = reinterpret_cast<const void*>(&code_directory);
  if (!::dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return {};
  std::string file = map->l_name ? map->l_name : "";
  if (file.empty()) file = "/proc/self/exe";  // the program: its dli_fname is argv[0], which anybody may choose
  if (file.front() != '/') return {};
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  return error ? std::string() : real.parent_path().string();
}

std::vector<std::string> plugin_directories_from(const std::string& code) {
  if (code.empty()) return {};
  const fs::path base(code);
  return normal({base / QUERN_PLUGIN_SUBDIR, base / ".." / QUERN_INSTALL_LIBDIR / QUERN_PLUGIN_SUBDIR,
                 base / "../lib" / QUERN_PLUGIN_SUBDIR});
}

std::vector<std::string> helper_paths_from(const std::string& code) {
  if (code.empty()) return {};
  const fs::path base(code);
  return normal({base / QUERN_LIBEXEC_FROM_LIBDIR / "quern/quern-probe", base / ".." / QUERN_INSTALL_LIBEXECDIR / "quern/quern-probe",
                 base / "quern-probe", base / "../bin/quern-probe"});
}

std::string find_helper() {
  for (const std::string& path : helper_paths_from(code_directory())) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::string default_plugin_directory() {
  const std::vector<std::string> all = plugin_directories_from(code_directory());
  for (const std::string& path : all)
    if (::access(path.c_str(), F_OK) == 0) return path;
  return all.empty() ? std::string() : all.front();
}

}  // namespace quern::loader
