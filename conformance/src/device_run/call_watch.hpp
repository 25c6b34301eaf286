// Watches one call of a plugin for system calls of memory and files, for new threads, and for reads of the environment.
//
// The call is made in a child of this process: from then on the kernel hands every such system call of any of its threads to the watch
// (seccomp), which notes it and ends the child. Reads of the environment meet a closed page.
#pragma once

#include <functional>
#include <string>

namespace quern::conformance {

struct CallWatch {
  /// Whether this build and this machine can watch: not under a sanitizer, which makes such calls of its own, nor without seccomp.
  static bool available() noexcept;

  /// `prepare` runs in the child and returns what is watched, which must not call the suite's own functions that take memory. `environment`:
  /// reads of it are forbidden too. Returns what the call did that it may not ("system call 9 (mmap)"), or an empty text. Throws
  /// std::runtime_error where the child came to another end: an exception of `prepare` with its text, a crash with its signal.
  static std::string of(const std::function<std::function<void()>()>& prepare, bool environment);
};

}  // namespace quern::conformance
