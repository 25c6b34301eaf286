// Ctrl-C in a run of many cases: the program ends by the signal, behind a sentence that says how the run goes on.
#pragma once

#include <csignal>

#include <atomic>
#include <string>
#include <thread>

namespace quern::conformance {

/// While this lives, SIGINT is taken by a thread of its own, which writes the sentence and ends the program by the signal. Processes that are
/// started meanwhile do not get it: a device process that it ended would look like a plugin that crashed. Made before other threads are.
class InterruptWatch {
 public:
  explicit InterruptWatch(std::string sentence);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void wait();

  std::string sentence_;
  sigset_t previous_{};
  std::atomic<bool> over_{false};
  std::thread thread_;  // none where SIGINT is ignored
};

}  // namespace quern::conformance
