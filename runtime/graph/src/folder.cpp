// See folder.hpp.
#include "quern/graph/folder.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace quern {
namespace {

constexpr int deepest = 32;

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void add_below(const std::string& folder, const std::string& prefix, int depth, std::vector<std::string>& paths) {
  for (const std::string& name : names_in(folder, SIZE_MAX)) {
    const std::string path = folder + "/" + name;
    if (!is_folder(path)) {
      paths.push_back(prefix + name);
    } else if (depth < deepest) {
      add_below(path, prefix + name + "/", depth + 1, paths);
    }
  }
}

}  // namespace

std::vector<std::string> names_in(const std::string& folder, std::size_t most) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), &::closedir);
  if (!open && errno == ENOMEM) throw std::bad_alloc();
  if (!open) return names;
  while (const dirent* entry = names.size() < most ? ::readdir(open.get()) : nullptr) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> paths_below(const std::string& folder) {
  std::vector<std::string> paths;
  add_below(folder, "", 0, paths);
  std::ranges::sort(paths);
  return paths;
}

bool remove_tree(const std::string& folder) {
  if (!is_folder(folder)) return ::unlink(folder.c_str()) == 0;
  bool gone = true;
  for (const std::string& name : names_in(folder, SIZE_MAX)) gone = remove_tree(folder + "/" + name) && gone;
  return gone && ::rmdir(folder.c_str()) == 0;
}

}  // namespace quern
