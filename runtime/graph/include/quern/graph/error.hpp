// The exception of the C++ side: a status code and a sentence for the user.
//
// Thrown for a user's mistake or the machine's state, never for a bug (those are asserts). It stops at the C
// boundary, where guarded() turns it into its code and keeps its text.
#pragma once

#include "quern/quern_status.h"

#include <sstream>
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

/// Joins anything that streams into one string. Throws std::bad_alloc where memory ran out: a stream alone would give the text cut short,
/// and a name cut short is another name.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);
  try {
    (out << ... << parts);
  } catch (const std::ios_base::failure&) {  // a null string: the text ends there
  }
  return out.str();
}

}  // namespace quern
