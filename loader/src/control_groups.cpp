// See control_groups.hpp.
#include "control_groups.hpp"

#include "quern/base/files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

namespace quern::loader {
namespace {

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty())
    if (next_part(list, ',') == word) return true;
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
std::vector<Mount> mounts_of(std::string_view controller, bool unified, std::string_view all) {
  std::vector<Mount> mounts;
  while (!all.empty()) {
    std::string_view place = next_part(all, '\n');
    const std::size_t dash = place.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view kind = place.substr(dash + 3);
    place = place.substr(0, dash);
    const std::string_view type = next_part(kind, ' ');
    next_part(kind, ' ');  // the source
    if (unified ? type != "cgroup2" : type != "cgroup" || !has_word(kind, controller)) continue;
    for (int field = 0; field < 3; ++field) next_part(place, ' ');  // numbers of the mount, its parent and its device
    const std::string_view group = next_part(place, ' '), point = next_part(place, ' ');
    if (!point.empty()) mounts.push_back({unescaped(group), unescaped(point)});
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

void add_levels(std::vector<ControlGroup>& groups, const Mount& mount, std::string path, std::string rest, bool unified,
                const std::string& root) {
  for (bool innermost = true;; innermost = false) {
    const std::string folder = root + mount.point + rest;
    if (is_folder(folder)) groups.push_back({folder, path.empty() ? "/" : path, unified, innermost});
    if (rest.empty()) return;
    rest.resize(rest.rfind('/'));
    path.resize(std::min(path.rfind('/'), path.size()));
  }
}

void add_groups(std::vector<ControlGroup>& groups, const std::vector<Mount>& mounts, const std::string& path, bool unified,
                const std::string& root) {
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
  const std::string all = text_of(root + "/proc/self/cgroup"), mounts = text_of(root + "/proc/self/mountinfo");
  for (std::string_view rest = all; !rest.empty();) {  // "4:memory:/box" of version 1, "0::/box" of version 2
    std::string_view line = next_part(rest, '\n');
    if (std::ranges::count(line, ':') < 2) continue;
    next_part(line, ':');  // the number of the hierarchy
    const std::string_view controllers = next_part(line, ':');
    const bool unified = controllers.empty();
    if (unified || has_word(controllers, controller))
      add_groups(groups, mounts_of(controller, unified, mounts), std::string(line), unified, root);
  }
  return groups;
}

std::string text_of(const std::string& path) {
  std::string text;
  if (base::read_file(path, text)) text.clear();
  return text;
}

std::string_view next_part(std::string_view& rest, char mark) {
  const std::string_view part = rest.substr(0, rest.find(mark));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end == text.data()) return std::nullopt;
  return std::min<std::uint64_t>(value, INT64_MAX);
}

}  // namespace quern::loader
