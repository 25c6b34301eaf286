// Files that a message of the chat names: @notes.txt, or @"my notes.txt". And how their names are completed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

struct Attached {
  std::string message;               ///< with the texts of the files behind it
  std::vector<std::string> files;    ///< that were found
  std::vector<std::string> missing;  ///< words that look like a path, where no such file is; they stay words
};

/// The text of each file that a word "@PATH" names stands behind the message once, after a blank line. Other words with an @ stay as they
/// are. Throws Failure(exit_refused) for a file that cannot be read, or is no text.
Attached attach_files(const std::string& message);

/// A path with "~/" in front is below the home folder.
std::string home_expanded(const std::string& path);

/// What can stand for the text from byte `from` up to the cursor.
struct Completion {
  bool possible = false;  ///< whether there is something to complete here at all
  std::size_t from = 0;
  std::vector<std::string> words;  ///< whole ones; a folder ends with '/', all else with a blank
};

/// Of a command of the chat, of what stands behind it, or of an @FILE.
Completion complete_chat(std::string_view text, std::size_t cursor);

}  // namespace quern::cli
