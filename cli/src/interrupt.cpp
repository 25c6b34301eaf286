#include "interrupt.hpp"

#include "plugin_fault.hpp"

#include <termios.h>
#include <unistd.h>

#include <atomic>

namespace quern::cli {
namespace {

std::atomic<quern_session*> guarded_session{nullptr};
std::atomic<int> interrupts{0};
std::atomic<bool> second_ends{true};
std::atomic<bool> typing_hidden{false};
termios with_typing{};  // written before typing_hidden is set
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                  std::atomic<quern_session*>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");

void on_interrupt(int) {
  const int before = interrupts.fetch_add(1);
  quern_session* session = guarded_session.load();
  if (before == 0 && second_ends.load()) watch_for_hang(AtHang::end_the_program);  // before the cancel, which comes to the plugin too
  if (before == 0 && session != nullptr) quern_cancel(session);
  if (before == 0 || !second_ends.load()) return;
  show_typing();
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

}  // namespace

void show_typing() noexcept {
  if (typing_hidden.load()) tcsetattr(STDIN_FILENO, TCSANOW, &with_typing);
}

InterruptGuard::InterruptGuard(quern_session* session, Typing typing, Second second)
    : previous_session_(guarded_session.exchange(session)), previous_second_ends_(second_ends.exchange(second == Second::ends)) {
  interrupts = 0;
  if (typing == Typing::hidden && tcgetattr(STDIN_FILENO, &with_typing) == 0) {
    termios without = with_typing;
    without.c_lflag &= static_cast<tcflag_t>(~(ECHO | ECHONL));
    typing_hidden = hides_ = tcsetattr(STDIN_FILENO, TCSANOW, &without) == 0;
  }
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no SA_RESTART: a read at the prompt ends with EINTR
  sigaction(SIGINT, &action, &previous_action_);
}

InterruptGuard::~InterruptGuard() {
  end_hang_watch();
  if (hides_) {
    tcsetattr(STDIN_FILENO, TCSANOW, &with_typing);
    typing_hidden = false;
  }
  guarded_session = previous_session_;
  second_ends = previous_second_ends_;
  interrupts = 0;
  sigaction(SIGINT, &previous_action_, nullptr);
}

bool InterruptGuard::interrupted() const { return interrupts.load() > 0; }

bool InterruptGuard::take_interrupt() { return interrupts.exchange(0) > 0; }

}  // namespace quern::cli
