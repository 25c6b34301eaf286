// The one exception of the program: an exit code and the sentence for stderr.
#pragma once

#include "exit_code.hpp"

#include <stdexcept>
#include <string>

namespace quern::cli {

/// Text as everywhere: what was asked, what was found, what to do; lower case, no full stop.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace quern::cli
