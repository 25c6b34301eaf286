// What the program writes: results to standard output, everything else to standard error. Nothing else in cli/ writes to either; a check of
// the tree (tests/tree/check_output.py) holds that.
#pragma once

#include "quern/base/terminal_output.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace quern::cli {

using Json = nlohmann::ordered_json;

/// One line of JSON. Bytes that are not UTF-8 become U+FFFD; a number that is not finite becomes null.
std::string json_line(const Json& value);

/// Writes to standard output and makes sure that it arrived. A terminal gets escapes (quern/base/terminal_text.hpp), a pipe and a file
/// the bytes as they are; a piece may end inside a character. Throws Failure(exit_refused) where it did not arrive (a full disk).
void write_out(std::string_view bytes);
/// Where results go: standard output, until another descriptor is set. That is before the first are written.
void set_results_file(int file) noexcept;
int results_file() noexcept;
void write_json(const Json& value);
void draw_out(const Drawing& drawing);

/// One line to standard error, after the progress bar if one is on the screen. Always escaped, line breaks inside it too; cut after 8 KiB.
void write_error_line(std::string_view line);
/// The same of several lines; the last one has its newline.
void write_error_page(std::string_view page);

/// Bytes that are printable already, to standard error, from a signal handler.
void write_error_in_handler(std::string_view line) noexcept;

/// Whether standard error is a terminal: only then something may be drawn there.
bool draws_on_error();
void draw_on_error(const Drawing& drawing);

}  // namespace quern::cli
