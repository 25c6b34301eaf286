#include "interrupt.hpp"

#include <atomic>

namespace quern::cli {
namespace {

std::atomic<quern_session*> guarded_session{nullptr};
std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<quern_session*>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");

void on_interrupt(int) {
  const int before = interrupts.fetch_add(1);
  quern_session* session = guarded_session.load();
  if (session == nullptr) return;
  if (before == 0) {
    quern_cancel(session);
    return;
  }
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

}  // namespace

InterruptGuard::InterruptGuard(quern_session* session) : previous_session_(guarded_session.exchange(session)) {
  interrupts = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read at the prompt ends with EINTR
  sigaction(SIGINT, &action, &previous_action_);
}

InterruptGuard::~InterruptGuard() {
  guarded_session = previous_session_;
  interrupts = 0;
  sigaction(SIGINT, &previous_action_, nullptr);
}

bool InterruptGuard::interrupted() const { return interrupts.load() > 0; }

}  // namespace quern::cli
