// The progress bar of a load or a download: one line on standard error, drawn only where that is a terminal.
#pragma once

#include <cstdint>
#include <string>

namespace quern::cli {

/// "loading model.gguf [#####.....] 52 %" for the verb "loading", at most `columns` wide.
std::string progress_line(const std::string& verb, const std::string& label, std::uint64_t done, std::uint64_t total, int columns);

/// Draws the bar, if standard error is a terminal and the line changed.
void draw_progress(const std::string& verb, const std::string& label, std::uint64_t done, std::uint64_t total);

/// Takes the bar off the screen, if one is there. Every other writer to standard error calls this first.
void erase_progress();

}  // namespace quern::cli
