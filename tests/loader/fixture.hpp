// A staged machine for loader tests: a plugin directory, roots of /sys, /dev, /proc and /etc, a cache.
#pragma once

#include "quern/loader/loader.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace quern::loader {

/// A temporary folder, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_file(const std::string& path, const std::string& bytes);  // makes the folders
std::string read_whole(const std::string& path);

struct Machine {
  Machine();

  /// Copies zoo animals into <root>/plugins, or into another folder of the machine.
  void add(const std::vector<std::string>& ids, const std::string& folder = "plugins");
  std::string plugin(const std::string& id, const std::string& folder = "plugins") const;
  void add_card(const std::string& address, const std::string& vendor, const std::string& device,
                const std::string& pci_class = "0x030000");

  /// Settings of this machine: only its own plugin directory, no environment, a helper, a short limit.
  Settings settings();

  std::vector<std::string> log_lines() const;

  Folder root;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> log_;
};

/// A plugin that is refused, and in which words.
struct Refused {
  const char* id;
  Stage stage;
  const char* code;
  const char* cause;   // a part of it
  const char* remedy;  // a part of it
};

inline void PrintTo(const Refused& bad, std::ostream* out) { *out << bad.id; }

/// The search of `loader` refused that plugin in these words, and found and opens "good:0" beside it.
void expect_refused_beside_the_good_one(Loader& loader, const Refused& bad);

/// The entry of a plugin file by id; fails the test if there is none.
ReportEntry entry_of(const Report& report, const std::string& id);
/// The first entry with this code, or an empty one.
ReportEntry entry_with(const Report& report, const std::string& code);
std::vector<std::string> labels(const Loader& loader);

}  // namespace quern::loader
