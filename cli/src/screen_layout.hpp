// How a prompt and the text behind it lie on a terminal of so many columns. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::cli {

struct ScreenLayout {
  std::string shown;       ///< what to write, from the first row's first column on; long lines wrap by themselves
  std::size_t rows = 1;    ///< that `shown` takes
  std::size_t row = 0;     ///< of the cursor
  std::size_t column = 0;  ///< of the cursor
};

/// `cursor` is a byte of `text`. Lines of the text behind the first stand under its first character.
/// Where the text takes more than `height` rows, those around the cursor are laid out, without the prompt. A tab takes four columns,
/// and what cannot be shown a '?'.
ScreenLayout lay_out(std::string_view prompt, std::string_view text, std::size_t cursor, std::size_t columns, std::size_t height);

}  // namespace quern::cli
