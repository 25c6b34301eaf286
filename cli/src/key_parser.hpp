// Bytes from a terminal as keys. Pure: it reads no terminal, so that its tests need none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::cli {

enum class KeyKind {
  text,     ///< characters to insert
  paste,    ///< what was pasted: line ends are '\n', other control characters but tabs are gone
  control,  ///< Ctrl and a letter; `text` is the letter in upper case
  alt,      ///< Alt and a character; `text` is the character
  enter,
  alt_enter,
  backspace,
  erase,
  tab,
  up,
  down,
  left,
  right,
  word_left,
  word_right,
  home,
  end,
  escape,  ///< Esc alone
  unknown  ///< a sequence that means nothing here
};

struct Key {
  KeyKind kind = KeyKind::unknown;
  std::string text;
};

class KeyParser {
 public:
  void feed(std::string_view bytes) { pending_ += bytes; }
  /// The next whole key. Nothing where more bytes are needed; with `no_more` (nothing came for a while) what is there counts
  /// as whole, except inside a paste.
  std::optional<Key> next(bool no_more = false);
  bool waiting() const { return !pending_.empty(); }

 private:
  std::optional<Key> escape_sequence(bool no_more);
  std::optional<Key> pasted();
  Key take(std::size_t bytes, KeyKind kind, std::string text = {});

  std::string pending_;
};

}  // namespace quern::cli
