#include "interrupt.hpp"

#include <atomic>
#include <csignal>

namespace quern::cli {
namespace {

std::atomic<quern_session*> cancelled_session{nullptr};
std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<quern_session*>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");
struct sigaction previous;

void on_interrupt(int) {
  if (interrupts.fetch_add(1) >= 1) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  if (quern_session* session = cancelled_session.load()) quern_cancel(session);
}

}  // namespace

InterruptGuard::InterruptGuard(quern_session* session) {
  interrupts = 0;
  cancelled_session = session;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read at the prompt ends with EINTR
  sigaction(SIGINT, &action, &previous);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &previous, nullptr);
  cancelled_session = nullptr;
}

bool InterruptGuard::take() { return interrupts.exchange(0) > 0; }

bool InterruptGuard::pending() const { return interrupts.load() > 0; }

}  // namespace quern::cli
