// See device_nodes.hpp.
#include "device_nodes.hpp"

#include "codes.hpp"
#include "quern/graph/error.hpp"
#include "survey.hpp"
#include "quern/graph/folder.hpp"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace quern::loader {
namespace {

namespace fs = std::filesystem;

Identity own_identity() {
  Identity own{::geteuid(), {::getegid()}};
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  own.groups.insert(own.groups.end(), groups.begin(), groups.end());
  return own;
}

bool may_open(const struct stat& node, const Identity& who) {
  constexpr mode_t read_and_write = 6;
  if (who.user == 0) return true;
  const unsigned shift = node.st_uid == who.user ? 6 : std::ranges::find(who.groups, node.st_gid) != who.groups.end() ? 3 : 0;
  return (node.st_mode >> shift & read_and_write) == read_and_write;
}

std::string group_name(gid_t group) {
  const ::group* entry = ::getgrgid(group);
  return entry == nullptr ? concat(group) : std::string(entry->gr_name);
}

/// The nodes of a folder whose names start so, sorted.
std::vector<std::string> nodes(const std::string& folder, const std::string& start) {
  std::vector<std::string> paths;
  for (const std::string& name : names_in(folder))
    if (name.starts_with(start)) paths.push_back(folder + "/" + name);
  return paths;
}

class Faults {
 public:
  explicit Faults(const Settings& settings) : who_(settings.identity.value_or(own_identity())) {}

  void missing(const std::string& path, const std::string& cause, const std::string& remedy) {
    ReportEntry entry = system_note(Status::warning, code::node_missing, cause, remedy);
    entry.path = path;
    found.push_back(std::move(entry));
  }
  void check(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || may_open(info, who_)) return;
    const std::string group = group_name(info.st_gid);
    const bool by_group = (info.st_mode >> 3 & 6) == 6 && info.st_gid != 0;
    ReportEntry entry = system_note(Status::warning, code::node_permission,
                                    concat(path, ": this user may not open it", by_group ? concat("; the group ", group, " may") : ""),
                                    by_group ? concat("become a member of the group ", group, ", and log in again")
                                             : "let the machine's administrator give it to a group that may");
    entry.path = path;
    if (by_group) entry.words["group"] = group;
    found.push_back(std::move(entry));
  }

  std::vector<ReportEntry> found;

 private:
  Identity who_;
};

}  // namespace

std::vector<ReportEntry> node_faults(const Settings& settings, const std::vector<GraphicsCard>& cards) {
  Faults faults(settings);
  const auto driven_by = [&](std::initializer_list<const char*> drivers) {
    return std::ranges::any_of(cards, [&](const GraphicsCard& c) {
      return !c.only_displays() && std::ranges::any_of(drivers, [&](const char* d) { return c.driver == d; });
    });
  };
  if (driven_by({"nvidia"})) {
    const std::string control = settings.dev_root + "/nvidiactl";
    const std::vector<std::string> all = nodes(settings.dev_root, "nvidia");
    if (std::ranges::find(all, control) == all.end())
      faults.missing(control, concat(control, ": is not there, though the kernel drives an NVIDIA card"),
                     "start the container with its cards (docker run --gpus all), or outside of one run nvidia-smi once as root");
    for (const std::string& path : all)
      if (struct stat info{}; ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) faults.check(path);
  }
  if (driven_by({"amdgpu", "i915", "xe", "nouveau"})) {
    const std::string folder = settings.dev_root + "/dri";
    const std::vector<std::string> all = nodes(folder, "renderD");
    if (all.empty())
      faults.missing(folder, concat(folder, ": has no renderD node, though the kernel drives a card"),
                     "start the container with its cards (docker run --device /dev/dri)");
    for (const std::string& path : all) faults.check(path);
  }
  return std::move(faults.found);
}

}  // namespace quern::loader
