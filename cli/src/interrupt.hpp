// Ctrl-C. While an answer is made it stops the answer; at the prompt of the chat it drops the line.
#pragma once

#include "quern.h"

#include <csignal>

namespace quern::cli {

/// Shows what is typed again, where a guard hides it. Safe in a signal handler.
void show_typing() noexcept;

/// While this lives, the first SIGINT does not end the program. It interrupts a read and, with a session, cancels what runs on it. A second one
/// ends the program after all, and so does a call into a plugin that goes on for four seconds (plugin_fault.hpp); where they are only counted,
/// neither does. Guards may be nested; the innermost
/// is in force. With hidden typing the terminal does not show what is typed in the meantime; it waits for the next read.
class InterruptGuard {
 public:
  enum class Typing { shown, hidden };
  enum class Second { ends, counts };
  explicit InterruptGuard(quern_session* session, Typing typing = Typing::shown, Second second = Second::ends);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether SIGINT came while this guard was in force.
  bool interrupted() const;
  /// The same, and forgets it.
  bool take_interrupt();

 private:
  struct sigaction previous_action_;
  quern_session* previous_session_;
  bool previous_second_ends_;
  bool hides_ = false;
};

}  // namespace quern::cli
