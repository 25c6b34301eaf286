// Text of others, made fit for a terminal and for a message.
//
// What moves a cursor, begins a sequence, turns the direction of writing or breaks a line unseen is shown as an escape: C0 controls and
// DEL as \x1b, C1 controls, bidirectional controls and the line and paragraph separators as \u202e, each byte that is no UTF-8 (unpaired
// surrogates among them) as \x9b. All other text stays as it is. The result of an escape holds nothing that is escaped again.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern {

/// A line, or a field of one: newline and tab are escaped too.
std::string printable(std::string_view text);

/// A page: newline and tab stay.
std::string printable_page(std::string_view text);

/// JSON on a terminal, with the escapes of JSON: what reads it gets the same text. `json` is valid JSON of printed strings in UTF-8.
std::string printable_json(std::string_view json);

/// printable() into a fixed array, ended by a zero and cut before the first character or escape that does not fit. `size` is 1 or more.
/// Allocates nothing.
void printable_into(std::string_view text, char* buffer, std::size_t size) noexcept;

/// printable(), of a text of more than `most` bytes the start and "...".
std::string printable_start(std::string_view text, std::size_t most);

/// The longest start of `text` with at most `most` bytes that ends at a character. Bytes that are no UTF-8 are characters of their own.
std::string_view cut_at_character(std::string_view text, std::size_t most) noexcept;

/// The text without the start of a character at its end.
std::string_view whole_characters(std::string_view text) noexcept;

/// 'text' in single quotes (std::quoted would be found by its argument), as printable() shows it; of a text of more than `most` bytes the start and "...".
std::string in_quotes(std::string_view text, std::size_t most = 80);

/// A page that comes in pieces, which may end inside a character.
class PrintablePieces {
 public:
  /// What can be shown now; the start of a character waits for the rest.
  std::string add(std::string_view piece);

 private:
  std::string waiting_;  // at most 3 bytes between two calls
};

}  // namespace quern
