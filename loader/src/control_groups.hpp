// The control groups that this process is in, where they are mounted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::loader {

struct ControlGroup {
  std::string folder;      // where its files are
  std::string name;        // as /proc/self/cgroup has it, or the folder where it has none for this level
  bool unified = false;    // of version 2
  bool innermost = false;  // the one that the process itself is in
};

/// The group under `controller` ("memory", "cpu") of version 1, that of version 2, and all above them as far as they are mounted here.
/// A level whose folder is not there is left out; so a process sees at least the group that its container has for its root.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root);

/// What a file of /proc or /sys says; empty where it is not there or cannot be read.
std::string text_of(const std::string& path);
/// What comes before the next `mark`, which is taken off `rest` with it.
std::string_view next_part(std::string_view& rest, char mark);
/// The number that a text begins with, behind spaces; nothing of "max" and of -1.
std::optional<std::uint64_t> leading_number(std::string_view text);

}  // namespace quern::loader
