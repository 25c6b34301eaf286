// See control_groups.hpp.
#include "control_groups.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace quern::loader {
namespace {

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

/// Paths in mountinfo have spaces, tabs, newlines and backslashes as \040.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t d) { return text[i + d] >= '0' && text[i + d] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && digit(1) && digit(2) && digit(3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct Mount {
  std::string group;  // which lies at the mount point
  std::string point;
};

/// "31 23 0:28 /group /point rw,relatime shared:1 - cgroup cgroup rw,memory"
std::vector<Mount> mounts_of(std::string_view controller, bool unified, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream place(line.substr(0, dash)), kind(line.substr(dash + 3));
    std::string id, parent, device, group, point, type, source, options;
    if (!(place >> id >> parent >> device >> group >> point) || !(kind >> type >> source >> options)) continue;
    if (unified ? type == "cgroup2" : type == "cgroup" && has_word(options, controller)) mounts.push_back({unescaped(group), unescaped(point)});
  }
  return mounts;
}

/// What of `path` lies below `base`: "" or "/a/b"; nothing where it lies elsewhere.
std::optional<std::string> below(const std::string& path, std::string base) {
  if (base == "/") base.clear();
  if (!path.starts_with(base) || (path.size() > base.size() && path[base.size()] != '/')) return std::nullopt;
  const std::string rest = path.substr(base.size());
  return rest == "/" ? std::string() : rest;
}

/// "/..": a group above the root of this process's namespace.
bool is_above(std::string_view group) {
  while (group.starts_with("/..")) group.remove_prefix(3);
  return group.empty();
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void add_levels(std::vector<ControlGroup>& groups, const Mount& mount, std::string path, std::string rest, bool unified, const std::string& root) {
  for (bool innermost = true;; innermost = false) {
    const std::string folder = root + mount.point + rest;
    if (is_folder(folder)) groups.push_back({folder, path.empty() ? "/" : path, unified, innermost});
    if (rest.empty()) return;
    rest.resize(rest.rfind('/'));
    path.resize(std::min(path.rfind('/'), path.size()));
  }
}

void add_groups(std::vector<ControlGroup>& groups, std::string_view controller, const std::string& path, bool unified, const std::string& root) {
  const std::vector<Mount> mounts = mounts_of(controller, unified, root);
  bool found = false;
  for (const Mount& mount : mounts) {
    const std::optional<std::string> rest = below(path, mount.group);
    if (!rest || path.find("/..") != std::string::npos) continue;
    found = true;
    add_levels(groups, mount, path, *rest, unified, root);
  }
  if (found) return;
  // The path is of another namespace than the mounts: a mount point is then a group above this process, or its container's own.
  for (const Mount& mount : mounts)
    if (is_above(mount.group) || mounts.size() == 1) add_levels(groups, mount, mount.point, {}, unified, root);
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:memory:/box" of version 1, "0::/box" of version 2
    const std::size_t name = line.find(':'), path = name == std::string::npos ? name : line.find(':', name + 1);
    if (path == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(name + 1, path - name - 1);
    if (!controllers.empty() && !has_word(controllers, controller)) continue;
    add_groups(groups, controller, line.substr(path + 1), controllers.empty(), root);
  }
  return groups;
}

}  // namespace quern::loader
