// See trust.hpp.
#include "trust.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "command.hpp"
#include "location.hpp"

#include <unistd.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

namespace quern::loader {
namespace {

/// The rows of /etc/passwd or /etc/group, cut at their colons; none where it cannot be read.
std::vector<std::vector<std::string>> rows_of(const char* file) {
  std::string text;
  std::vector<std::vector<std::string>> rows;
  if (base::read_file(file, text, {.most = 1 << 20})) return rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ':');) row.push_back(std::move(field));
  }
  return rows;
}

/// Whether a group is this user's and no other user is in it, as distributions give each user one. Unknown groups are not.
bool is_private_group(gid_t group, uid_t user) {
  const std::string gid = std::to_string(group), uid = std::to_string(user);
  std::string name;
  for (const auto& row : rows_of("/etc/passwd")) {
    if (row.size() < 4 || row[3] != gid) continue;
    if (row[2] != uid) return false;
    name = row[0];
  }
  if (name.empty()) return false;
  for (const auto& row : rows_of("/etc/group"))
    if (row.size() >= 3 && row[2] == gid) return row.size() == 3 || row[3].empty() || row[3] == name;
  return false;
}

/// In a container without all users of its host, root's own files belong to the user that stands for all others.
bool stands_for_root(uid_t user) {
  std::string text, map;
  uid_t overflow = 0;
  if (base::read_head("/proc/sys/kernel/overflowuid", text, 32) || base::read_head("/proc/self/uid_map", map, 256)) return false;
  if (std::from_chars(text.data(), text.data() + text.size(), overflow).ec != std::errc() || user != overflow) return false;
  std::istringstream rows(map);
  std::uint64_t inside = 0, outside = 0, count = 0;
  rows >> inside >> outside >> count;
  return rows && count < UINT32_MAX;
}

/// Calls `look` for each folder above a real path, the nearest first, until it returns true.
template <typename Look>
void each_above(const std::string& real_path, const Look& look) {
  for (std::string above = real_path; above.size() > 1;) {
    above.resize(std::max<std::size_t>(above.rfind('/'), 1));
    struct stat info {};
    if (::stat(above.c_str(), &info) == 0 && look(above, info)) return;  // it could be followed a moment ago
  }
}

std::optional<Others> others(const std::string& path, const struct stat& info, bool sticky_guards, const Masters& known) {
  const std::string word = shell_word(path);
  if (info.st_uid != 0 && info.st_uid != ::geteuid() && !stands_for_root(info.st_uid) && !known.users.contains(info.st_uid))
    return Others{path, concat("its owner (user ", info.st_uid, ")"), concat("sudo chown root ", word), true};
  if (sticky_guards && (info.st_mode & S_ISVTX)) return std::nullopt;
  if (info.st_mode & S_IWOTH) return Others{path, "everyone", concat("chmod o-w ", word)};
  if ((info.st_mode & S_IWGRP) && info.st_gid != 0 && !known.groups.contains(info.st_gid) && !is_private_group(info.st_gid, info.st_uid))
    return Others{path, concat("the group ", info.st_gid), concat("chmod g-w ", word)};
  return std::nullopt;
}

}  // namespace

Masters masters_of(const std::string& code) {
  Masters found;
  if (code.empty()) return found;
  each_above(code + "/", [&](const std::string&, const struct stat& info) {
    found.users.insert(info.st_uid);
    if ((info.st_mode & S_IWGRP) && !(info.st_mode & S_ISVTX)) found.groups.insert(info.st_gid);
    return false;
  });
  return found;
}

const Masters& masters() {
  static const Masters found = masters_of(code_directory());
  return found;
}

std::optional<Others> others_who_may_write(const std::string& path, const struct stat& info, const Masters& known) {
  return others(path, info, false, known);
}

std::optional<Others> others_above(const std::string& real_path, const Masters& known) {
  std::optional<Others> found;
  each_above(real_path, [&](const std::string& above, const struct stat& info) {
    found = others(above, info, true, known);
    return found.has_value();
  });
  return found;
}

}  // namespace quern::loader
