// How many tokens the user's quern processes have made: one small file a process, which `quern monitor` reads.
//
// The folder is $XDG_RUNTIME_DIR/quern, else /tmp/quern-UID, and must be the user's own. A file is PID.activity, 512 bytes that the
// process has mapped; it is removed at the end, or by the next monitor where the process died.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

/// The folder, with its rights checked; nothing where there is none or it is another's. `make`: it may be created.
std::optional<std::string> activity_folder(bool make);

/// Counts the tokens of this process. Where the folder or the file cannot be had it counts nothing: the answer matters more.
class ActivityWriter {
 public:
  explicit ActivityWriter(const std::string& model);
  ~ActivityWriter();
  ActivityWriter(const ActivityWriter&) = delete;
  ActivityWriter& operator=(const ActivityWriter&) = delete;
  void add_token() noexcept;

 private:
  std::string path_;
  void* memory_ = nullptr;
};

struct Activity {
  std::int32_t pid = 0;
  std::string model;
  std::uint64_t tokens = 0;  // since the process started
};

/// Of all living processes, in the order of their ids. Files of dead ones are removed.
std::vector<Activity> read_activities();

}  // namespace quern::cli
