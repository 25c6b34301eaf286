// What a training run tells: lines on the terminal, log.jsonl and a picture of the losses in its folder.
#pragma once

#include "event_file.hpp"
#include "line_chart.hpp"
#include "output.hpp"

#include "quern/base/files.hpp"
#include "quern.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace quern::cli {

class TrainingLog {
 public:
  /// Writes nothing before begin(). A line a step goes into log.jsonl; one of `every` steps on the terminal.
  /// With `events` a file that TensorBoard reads lies beside it; a run that goes on begins another one.
  TrainingLog(std::string folder, std::uint32_t every, bool events, bool quiet);

  /// For the trainer; valid as long as the log.
  quern_training_callbacks callbacks();
  /// Opens log.jsonl. Lines of steps behind `step` are of a run that did not save them: they are taken away.
  void begin(std::uint64_t step);
  /// Draws loss.svg.
  void end();

  /// Names and numbers for the closing JSON.
  std::vector<std::pair<std::string, double>> results() const;
  std::string closing_page(const std::string& end) const;

 private:
  void on_step(const quern_training_step& step);
  void on_evaluation(const quern_training_evaluation& evaluation);
  void append(const Json& object);
  void append_event(std::uint64_t step, std::span<const EventFile::Scalar> scalars);
  void draw() const;

  std::string folder_;
  std::uint32_t every_;
  bool with_events_;
  bool quiet_;
  base::GrowingFile file_;
  EventFile events_;
  bool open_ = false;
  std::vector<ChartPoint> losses_, validation_;
  double seconds_ = 0;
  std::uint64_t tokens_ = 0, steps_here_ = 0;
};

}  // namespace quern::cli
