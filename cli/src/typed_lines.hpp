// The lines typed in earlier chats: a file of the user's own (mode 0600) with one JSON text a line, the newest last.
#pragma once

#include <string>
#include <vector>

namespace quern::cli {

class TypedLines {
 public:
  /// The file is $XDG_STATE_HOME/quern/chat_history, else ~/.local/state/quern/chat_history. Where neither variable names a folder
  /// nothing is kept.
  TypedLines();

  /// The newest 1000. Lines that cannot be read are left out. What is wrong with the file is said in `problem`, and nothing is then kept.
  std::vector<std::string> read(std::string& problem);
  /// Adds one; the first failure is said in `problem`, and nothing is kept after it. A line of more than 64 KiB is not kept.
  void add(const std::string& line, std::string& problem);

 private:
  std::string path_;  ///< "": nothing is kept
};

}  // namespace quern::cli
