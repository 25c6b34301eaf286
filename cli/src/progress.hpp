// The progress bar of everything that takes time: one line on standard error, drawn only where that is a terminal.
#pragma once

#include "quern/base/progress_line.hpp"

#include <cstdint>
#include <string>

namespace quern::cli {

/// One bar. It stays on the screen until end(), or until another message is written; then the next show() draws it again.
class Progress {
 public:
  /// `item`: what is counted, "tokens"; null for bytes. A quiet one draws nothing.
  Progress(std::string verb, std::string label, const char* item = nullptr, bool quiet = false);

  /// Draws the bar, at most ten times a second and at the end. `total` 0: not known.
  void show(std::uint64_t done, std::uint64_t total);
  /// The name of what is worked on now.
  void relabel(std::string label) { meter_.relabel(std::move(label)); }
  void end();

 private:
  ProgressMeter meter_;
  bool quiet_;
};

/// Takes the bar off the screen, if one is there. Every other writer to standard error calls this first.
void erase_progress();

}  // namespace quern::cli
