// A process with a line protocol and shared memory: this same executable with a hidden verb, or another program.
//
// Descriptors of the child: 3 requests (read), 4 replies (written), 5 inputs, 6 outputs, 7 breadcrumbs; 1 and 2 go to a log that the parent keeps.
#pragma once

#include "worker/shared_memory.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace quern::conformance {

enum ChildDescriptor : int { child_requests = 3, child_replies = 4, child_inputs = 5, child_outputs = 6, child_crumbs = 7 };

/// A program that is not this one.
struct OtherProgram {
  std::string path;                      // of its file
  std::string name;                      // argv[0]
  std::string directory;                 // that it works in
  std::vector<std::string> environment;  // "NAME=value"
};

/// One child. One thread. Its destructor kills and reaps what still runs.
class ChildProcess {
 public:
  /// Starts `/proc/self/exe arguments...`. `inputs` may be null. Throws std::system_error.
  ChildProcess(const std::vector<std::string>& arguments, const SharedMemory* inputs);
  /// Starts another program, without arguments and inputs. Throws std::system_error.
  explicit ChildProcess(const OtherProgram& program);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  SharedMemory& outputs() noexcept { return outputs_; }
  /// One line. False if the child is gone.
  bool send(const std::string& line);

  enum class End { answered, died, timed_out };
  struct Answer {
    End end = End::died;
    std::string line;   // answered
    std::string cause;  // died: "signal 11 (Segmentation fault) in submit", "exit code 1"; with what it printed last
  };
  /// Waits for one line. On a time-out the child is killed.
  Answer receive(double seconds);
  /// What it wrote to stdout and stderr since the last call, at most 4 KiB.
  std::string printed();

 private:
  void start(const char* path, const std::vector<std::string>& words, const SharedMemory* inputs, const char* directory,
             char** environment);
  std::string reap();
  std::string where();  // " in submit", as its breadcrumbs say; empty: nothing is known
  void await_end() noexcept;
  void close_all() noexcept;

  pid_t pid_ = -1;
  int requests_ = -1, replies_ = -1;
  SharedMemory outputs_, log_, crumbs_;
  std::uint64_t log_read_ = 0;
  std::string pending_;
};

}  // namespace quern::conformance
