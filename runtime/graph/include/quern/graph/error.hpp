// The exception of the C++ side: a status code and a sentence for the user.
//
// Thrown for a user's mistake or the machine's state, never for a bug (those are asserts). It stops at the C
// boundary, where guarded() turns it into its code and keeps its text.
#pragma once

#include "quern/base/concat.hpp"
#include "quern/quern_status.h"

#include <stdexcept>
#include <string>

namespace quern {

/// What was asked, what was found, what to do: lower case, no full stop, names as the user wrote them.
class Error : public std::runtime_error {
 public:
  Error(quern_status code, const std::string& text) : std::runtime_error(text), code_(code) {}
  quern_status code() const noexcept { return code_; }

 private:
  quern_status code_;
};

}  // namespace quern
