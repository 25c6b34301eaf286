// What the user gives: files and standard input, byte for byte, and the messages of a chat.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

struct Message {
  std::string role;
  std::string content;
  bool operator==(const Message&) const = default;
};

/// All bytes of a file; "-" is standard input. Throws Failure(exit_refused) naming the file as given.
std::string read_file(const std::string& path);

/// All bytes of standard input. Throws Failure(exit_refused).
std::string read_stdin();

/// One line of standard input without its end; "" at the end of the input.
std::string read_answer();

/// What a pipe, a file or a socket on standard input brings beside a prompt; "" for a terminal, for a device such as
/// /dev/null, and where standard input is closed. Reads to the end; `waiting` is called once if that takes more than two
/// seconds to begin. Throws Failure(exit_refused).
std::string read_beside_prompt(void (*waiting)());

/// All bytes of a file, which must be UTF-8; "-" is standard input. Throws Failure(exit_refused) naming the file and the byte.
std::string read_text(const std::string& path);
/// Throws Failure(exit_refused) where the text is not UTF-8; `what` is its name, "the prompt".
void require_text(std::string_view text, const std::string& what);

/// The two with a blank line between them; one of them alone where the other is empty.
std::string appended(std::string text, const std::string& more);

/// The prompt, a blank line and the input; one of them alone where the other is empty. A word "-" of the prompt is the place of the
/// input instead, where it is the only such word and begins no line of a list ("- milk").
std::string with_input(std::string prompt, const std::string& input);

}  // namespace quern::cli
