// The words of a progress bar: pure text, the same in every program.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace quern {

struct ProgressState {
  std::string verb;            // "loading"
  std::string label;           // "model.gguf"; shown as printable()
  const char* item = nullptr;  // "tokens"; null: bytes
  std::uint64_t done = 0;
  std::uint64_t total = 0;  // 0: not known
  std::uint64_t first = 0;  // done when the first reading was taken: what was there before says nothing of the speed
  double seconds = 0;       // since that reading
};

/// "loading model.gguf [#####.....] 52 %, 1.2 of 2.3 GiB, 210.0 MiB/s, 6 s left", narrower than `columns`: what does not fit is left
/// out from the right, then the label. Speed and time left come after the first second.
std::string progress_line(const ProgressState& state, int columns);

/// One bar over time: it remembers when it began and when it was last drawn.
class ProgressMeter {
 public:
  /// `item`: what is counted, "tokens"; null for bytes.
  ProgressMeter(std::string verb, std::string label, const char* item) : state_{std::move(verb), std::move(label), item} {}

  /// The line to draw now; nothing where one was asked for less than a tenth of a second ago, unless all is done.
  std::optional<std::string> line(std::uint64_t done, std::uint64_t total, int columns);
  /// The name of what is worked on now.
  void relabel(std::string label) { state_.label = std::move(label); }

 private:
  using Clock = std::chrono::steady_clock;
  ProgressState state_;
  bool begun_ = false;
  Clock::time_point started_, drawn_;
};

/// "6 s", "3 min", "2 h 5 min".
std::string duration_words(double seconds);

}  // namespace quern
