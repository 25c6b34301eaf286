// See interrupt_watch.hpp.
#include "cli/interrupt_watch.hpp"

#include "cli/output.hpp"

#include <ctime>
#include <utility>

namespace quern::conformance {
namespace {

sigset_t only_interrupt() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch(std::string sentence) : sentence_(std::move(sentence)) {
  struct sigaction action {};
  if (sigaction(SIGINT, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;  // as in the background of a shell
  const sigset_t interrupt = only_interrupt();
  pthread_sigmask(SIG_BLOCK, &interrupt, &previous_);
  thread_ = std::thread([this] { wait(); });
}

InterruptWatch::~InterruptWatch() {
  if (!thread_.joinable()) return;
  over_ = true;
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void InterruptWatch::wait() {
  const sigset_t interrupt = only_interrupt();
  const timespec patience{0, 100'000'000};
  while (!over_) {
    if (sigtimedwait(&interrupt, nullptr, &patience) != SIGINT) continue;
    write_error(sentence_);
    std::signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
    std::raise(SIGINT);
  }
}

}  // namespace quern::conformance
