// Assembles UTF-8 from pieces that may end inside a character, so that a text can be shown while it is
// generated.
#pragma once

#include <string>
#include <string_view>

namespace quern {

/// Takes bytes, gives text. What it returned so far is always valid UTF-8; a character whose bytes are not
/// all there is held back (at most three bytes). Bytes that can no longer become a character turn into
/// U+FFFD, one for each longest prefix of a valid sequence (Unicode chapter 3, "maximal subpart"), so that
/// the result does not depend on how the bytes were cut. One stream belongs to one thread at a time.
class Utf8Stream {
 public:
  /// Adds bytes and returns the text that they completed.
  std::string push(std::string_view bytes);

  /// The text ends here: what was held back becomes U+FFFD. The stream is empty afterwards and may be used
  /// again.
  std::string flush();

  /// True if bytes are held back.
  bool pending() const noexcept { return !held_.empty(); }

 private:
  std::string held_;
};

}  // namespace quern
