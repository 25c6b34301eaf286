// See process_state.hpp.
#include "abi/process_state.hpp"

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <chrono>
#include <filesystem>
#include <thread>

extern char** environ;

namespace quern::conformance::abi {
namespace {

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    (void)entry;
    ++count;
  }
  return count;
}

/// A thread that was joined may still be in the list for a moment.
std::size_t threads() {
  std::size_t count = entries("/proc/self/task");
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    count = std::min(count, entries("/proc/self/task"));
  }
  return count;
}

std::string written(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? std::to_string(info.st_size) : "closed";
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState state;
  auto& p = state.parts_;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) p["environment"] += std::string(*e) + "\n";
  for (int s = 1; s < 65; ++s) {
    struct sigaction action {};
    if (::sigaction(s, nullptr, &action) != 0) continue;
    p["handler of signal " + std::to_string(s)] =
        std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler)) + " " + std::to_string(action.sa_flags);
  }
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int s = 1; s < 65; ++s) p["signal mask"] += sigismember(&mask, s) == 1 ? '1' : '0';
  p["locale"] = ::setlocale(LC_ALL, nullptr);
  p["working directory"] = std::filesystem::current_path().string();
  const mode_t creation = ::umask(0);
  ::umask(creation);
  p["umask"] = std::to_string(creation);
  p["rounding mode"] = std::to_string(::fegetround());
#if defined(__x86_64__)
  p["SSE control"] = std::to_string(_mm_getcsr() & 0xffc0u);
#endif
  char name[64] = {};
  ::pthread_getname_np(::pthread_self(), name, sizeof name);
  p["name of the calling thread"] = name;
  p["threads"] = std::to_string(threads());
  p["open descriptors"] = std::to_string(entries("/proc/self/fd"));
  p["bytes on stdout"] = written(1);
  p["bytes on stderr"] = written(2);
  return state;
}

std::string ProcessState::difference(const ProcessState& later) const {
  std::string text;
  for (const auto& [part, value] : parts_) {
    const auto found = later.parts_.find(part);
    if (found != later.parts_.end() && found->second == value) continue;
    text += (text.empty() ? "" : "; ") + part + " was " + value + ", is " + (found == later.parts_.end() ? "gone" : found->second);
  }
  return text;
}

}  // namespace quern::conformance::abi
