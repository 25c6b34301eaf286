// Who else than this user and root may change a plugin, or put another one in its place.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <set>
#include <string>

namespace quern::loader {

/// Users and groups who may replace this library already: a plugin of theirs gives them nothing new. So a tree that root runs from another
/// user's folder works as a whole.
struct Masters {
  std::set<uid_t> users;
  std::set<gid_t> groups;
};
/// Those who may write to the folder `code`, or to one above it.
Masters masters_of(const std::string& code);
/// Of the folder of this library, looked at once.
const Masters& masters();

struct Others {
  std::string path;    // of the file or folder
  std::string who;     // "everyone", "the group 44", "its owner (user 1000)"
  std::string remedy;  // a command
  bool owner = false;  // it is another user's
};

/// Of a file, or of a folder that holds plugins. The user's private group, which nobody else is in, is the user.
std::optional<Others> others_who_may_write(const std::string& path, const struct stat& info, const Masters& known = masters());

/// Of the folders above a real path, the nearest first: who may write to one may put another folder in the place of what is below it. The sticky
/// bit of /tmp forbids that.
std::optional<Others> others_above(const std::string& real_path, const Masters& known = masters());

}  // namespace quern::loader
