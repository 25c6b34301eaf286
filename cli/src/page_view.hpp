// A page of plain lines as a terminal shows it: wrapped at words, its marks in colour.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quern::cli {

/// The page's lines, each at most `columns` wide where its words allow it. A line is broken at spaces; what follows stands two columns deeper than
/// the line began, or behind its mark.
std::vector<std::string> wrapped_lines(const std::string& page, std::size_t columns);

/// Writes the page to standard output. On a terminal it is wrapped, and the marks "[ok]", "[no]", "[!!]" and "[--]" at the beginning of a line
/// have colours (none with NO_COLOR); elsewhere the page is as it is.
void write_marked_page(const std::string& page);

}  // namespace quern::cli
