// Waits until a thread sleeps in the kernel: the event between "it is about to wait for a lock" and "it waits", which a lock does not tell.
#pragma once

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace quern::test {

/// `thread` is what gettid() gave in a thread of this process. It sleeps if it does so at several looks in a row, and has not run between
/// them: a short wait on the way is not the last one. Throws after a minute, in which the test has hung.
inline void wait_until_asleep(pid_t thread) {
  const std::string folder = "/proc/self/task/" + std::to_string(thread);
  const auto naps = [&] {  // how often it has gone to sleep by itself; -1 while it runs
    std::ifstream status(folder + "/status");
    bool sleeps = false;
    for (std::string word; status >> word;) {
      if (word == "State:") sleeps = status >> word && word == "S";
      long count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) return sleeps ? count : -1;
    }
    throw std::runtime_error("there is no thread " + std::to_string(thread));
  };
  constexpr int looks = 5;
  long before = -1;
  for (int look = 0, same = 0; look < 60000; ++look) {
    const long now = naps();
    same = now >= 0 && now == before ? same + 1 : 0;
    if (same == looks) return;
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw std::runtime_error("thread " + std::to_string(thread) + " does not come to wait");
}

}  // namespace quern::test
