// What the program writes: results to standard output, everything else to standard error.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace quern::cli {

using Json = nlohmann::ordered_json;

/// One line of JSON. Bytes that are not UTF-8 become U+FFFD; a number that is not finite becomes null.
std::string json_line(const Json& value);

/// Writes to standard output and makes sure that it arrived. Throws Failure(exit_refused) where it did not (a full
/// disk).
void write_out(std::string_view bytes);
void write_json(const Json& value);

/// One line to standard error, after the progress bar if one is on the screen.
void write_error_line(std::string_view line);

/// Text that is safe on a terminal line: control characters, newline included, become \xNN.
std::string printable(std::string_view text);

}  // namespace quern::cli
