// Ctrl-C. While an answer is made it stops the answer; otherwise it does what it always does.
#pragma once

#include "quern.h"

namespace quern::cli {

/// While this lives, SIGINT cancels what runs on the session (if one is given) and is counted instead of ending the
/// program. A second SIGINT before take() ends the program, so that a call that hangs can be left. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(quern_session* session);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Whether SIGINT came since the last take().
  bool take();
  /// Whether SIGINT came; leaves it in place.
  bool pending() const;
};

}  // namespace quern::cli
