// What the program writes: results to standard output, messages to standard error. Nothing else in conformance/ writes to either; a check of
// the tree (tests/tree/check_output.py) holds that. Text of plugins, drivers and journals is escaped (quern/base/terminal_output.hpp).
#pragma once

#include <ostream>
#include <string_view>

namespace quern::conformance {

/// A terminal gets escapes, a pipe and a file the bytes as they are.
std::ostream& to_output();

/// errno of the first write of to_output() that failed, or 0. What follows such a write is left out.
int output_problem();

/// Always escaped, and written at once.
std::ostream& to_messages();

/// "quern-conformance: " and the sentence on one line of standard error, whatever the sentence quotes.
void write_error(std::string_view sentence);

/// Draws a line of progress over the one before, where standard error is a terminal. The next message erases it.
void draw_progress(std::string_view line);
void erase_progress();

/// Columns of the terminal on standard error.
int columns_of_messages();

}  // namespace quern::conformance
