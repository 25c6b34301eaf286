// A call of a plugin that fails in the way that QUERN_TEST_FAULT names: "submit:crash". In the helper process it is good. A call that is
// to hang puts a byte into the pipe whose number is QUERN_TEST_WAIT. QUERN_TEST_AFTER=3 lets three calls pass before.
#pragma once

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace quern::test {

inline void fail(std::string_view fault) {
  if (fault == "crash") *static_cast<volatile int*>(nullptr) = 1;
  if (fault == "abort") std::abort();
  if (fault == "exit") std::exit(0);
  if (fault == "throw") throw std::runtime_error("no such luck");
  if (fault == "print") std::puts("printed by the plugin");
  if (fault != "hang") return;
  const char* pipe = std::getenv("QUERN_TEST_WAIT");
  if (pipe == nullptr || ::write(std::atoi(pipe), "", 1) != 1) return;
  for (;;) ::pause();
}

inline void fail_in(std::string_view call) {
  const char* value = std::getenv("QUERN_TEST_FAULT");
  if (value == nullptr || std::string_view(program_invocation_short_name) == "quern-probe") return;
  const std::string_view wanted = value;
  const std::size_t colon = wanted.find(':');
  if (wanted.substr(0, colon) != call) return;
  static std::atomic<int> passed{0};
  const char* after = std::getenv("QUERN_TEST_AFTER");
  if (after == nullptr || ++passed > std::atoi(after)) fail(wanted.substr(colon + 1));
}

}  // namespace quern::test
