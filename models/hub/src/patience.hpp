// Tries again what the network interrupted: after 1, 2, 4 ... seconds, or when the server says, until nothing has come for some tries.
#pragma once

#include "http.hpp"

#include <functional>
#include <string>

namespace quern::hub {

class Patience {
 public:
  /// `report` gets the reason of a wait several times a second; false cancels.
  Patience(std::uint32_t tries, std::function<bool(const std::string&)> report) : tries_(tries), report_(std::move(report)) {}

  /// Bytes came: the count of failures starts anew.
  void progressed() {
    failures_ = 0;
    connected_ = true;
  }

  /// attempt() until it returns. Throws Error(QUERN_IO) when patience ends, Error(QUERN_CANCELLED), and what else it throws.
  template <typename Attempt>
  auto run(const Attempt& attempt) {
    while (true) {
      try {
        return attempt();
      } catch (const Interrupted& interrupted) { wait_or_give_up(interrupted); }
    }
  }

 private:
  void wait_or_give_up(const Interrupted& interrupted);

  std::uint32_t tries_;
  std::function<bool(const std::string&)> report_;
  std::uint32_t failures_ = 0;
  bool connected_ = false;  // a machine without network should say so at once, and a download should survive a gap in it
};

/// Returns for 200 and 206. Throws Interrupted for what may pass (408, 429, 5xx), Error for the rest; `what` names what was asked for.
void check_status(const Response& response, const std::string& what, bool with_token);

}  // namespace quern::hub
