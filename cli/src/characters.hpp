// Text as a terminal shows it: characters and how many columns each takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::cli {

struct Character {
  std::size_t bytes = 0;  ///< at least 1
  int columns = 1;        ///< 0, 1 or 2
  bool shown = true;      ///< false: a control character, or bytes that are no UTF-8; a stand-in of one column is drawn
};

/// The character at byte `at`, with all that belongs to it: combining marks, modifiers, joined emoji. `at` < text.size().
Character character_at(std::string_view text, std::size_t at);

/// Where the character before byte `at` begins; 0 for 0. Reads the text from its last newline before `at`.
std::size_t character_before(std::string_view text, std::size_t at);

/// One row of text: control characters are escaped, and what is wider than `columns` is cut and ends with an ellipsis.
std::string cut_to_columns(std::string_view text, std::size_t columns);

/// Lines broken between words where they are wider than `columns`; a longer word stays whole.
std::string wrapped(std::string_view text, std::size_t columns);

/// Where the first byte is that belongs to no character of UTF-8; the text's size where all do.
std::size_t first_bad_byte(std::string_view text);

}  // namespace quern::cli
