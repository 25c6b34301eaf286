// See folder.hpp.
#include "folder.hpp"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace quern::loader {

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

}  // namespace quern::loader
