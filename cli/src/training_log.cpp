// See training_log.hpp.
#include "training_log.hpp"

#include "failure.hpp"
#include "numbers.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace quern::cli {
namespace {

void check_log(const base::FileProblem& problem) {
  if (problem) throw Failure(exit_refused, problem.text);
}

/// "1 h 02 min", "3 min 20 s", "12 s".
std::string time_words(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::max(0.0, std::round(seconds)));
  const auto two = [](std::uint64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole >= 3600) return std::to_string(whole / 3600) + " h " + two(whole / 60 % 60) + " min";
  if (whole >= 60) return std::to_string(whole / 60) + " min " + two(whole % 60) + " s";
  return std::to_string(whole) + " s";
}

double seconds_since_1970() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// The step of a line of log.jsonl; nothing for a line that was cut.
std::optional<std::uint64_t> step_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return std::nullopt;
  return json["step"].get<std::uint64_t>();
}

}  // namespace

TrainingLog::TrainingLog(std::string folder, std::uint32_t every, bool events, bool quiet)
    : folder_(std::move(folder)), every_(std::max(1u, every)), with_events_(events), quiet_(quiet) {}

quern_training_callbacks TrainingLog::callbacks() {
  quern_training_callbacks c{};
  c.struct_size = sizeof c;
  c.user = this;
  c.step = [](void* self, const quern_training_step* step) {
    static_cast<TrainingLog*>(self)->on_step(*step);
    return 0;
  };
  c.evaluation = [](void* self, const quern_training_evaluation* evaluation) {
    static_cast<TrainingLog*>(self)->on_evaluation(*evaluation);
    return 0;
  };
  c.saved = [](void* self, std::uint64_t step, const char* folder) {
    if (!static_cast<TrainingLog*>(self)->quiet_) write_error_line("step " + std::to_string(step) + ": saved " + folder);
  };
  c.warning = [](void*, const char* sentence) { write_error_line(std::string("warning: ") + sentence); };
  return c;
}

void TrainingLog::begin(std::uint64_t step) {
  const std::string path = folder_ + "/log.jsonl";
  std::string kept;
  if (step > 0) {
    std::string before;
    const base::FileProblem problem = base::read_file(path, before, {.most = std::uint64_t{1} << 30});
    if (problem.fault != base::FileFault::not_found) check_log(problem);
    for (std::size_t at = 0; at < before.size();) {
      const std::size_t end = before.find('\n', at);
      if (end == before.npos) break;
      const std::string_view line = std::string_view(before).substr(at, end - at);
      if (const auto of = step_of(line); of && *of <= step) {
        kept.append(line).append("\n");
        const Json json = Json::parse(line);
        auto& points = json.contains("validation_loss") ? validation_ : losses_;
        const char* name = json.contains("validation_loss") ? "validation_loss" : "loss";
        if (json.contains(name) && json[name].is_number()) points.push_back({static_cast<double>(*of), json[name].get<double>()});
      }
      at = end + 1;
    }
  }
  check_log(base::write_file(path, kept));
  check_log(base::GrowingFile::open(path, base::GrowingFile::Begin::keep, file_));
  if (with_events_) check_log(EventFile::open(folder_, seconds_since_1970(), step, events_));
  open_ = true;
}

void TrainingLog::append_event(std::uint64_t step, std::span<const EventFile::Scalar> scalars) {
  if (!open_ || !with_events_) return;
  if (const base::FileProblem problem = events_.append(seconds_since_1970(), step, scalars)) {
    write_error_line("warning: " + problem.text);
    with_events_ = false;
  }
}

void TrainingLog::append(const Json& object) {
  if (!open_) return;
  // A full disk takes the log, not the run.
  if (const base::FileProblem problem = file_.append(json_line(object))) {
    write_error_line("warning: " + problem.text);
    open_ = false;
  }
}

void TrainingLog::on_step(const quern_training_step& step) {
  seconds_ += step.seconds;
  tokens_ += step.tokens;
  ++steps_here_;
  losses_.push_back({static_cast<double>(step.step), step.loss});
  append(Json{{"step", step.step},
              {"epoch", step.epoch},
              {"loss", step.loss},
              {"grad_norm", step.gradient_norm},
              {"learning_rate", step.rate},
              {"tokens", step.tokens},
              {"labels", step.labels},
              {"skipped", step.skipped},
              {"seconds", step.seconds},
              {"tokens_per_second", static_cast<double>(step.tokens) / std::max(step.seconds, 1e-9)},
              {"memory_bytes", step.memory_bytes}});
  const auto number = [](double x) { return static_cast<float>(x); };
  const EventFile::Scalar scalars[] = {{"train/loss", number(step.loss)},
                                       {"train/learning_rate", number(step.rate)},
                                       {"train/grad_norm", number(step.gradient_norm)},
                                       {"train/tokens_per_second",
                                        number(static_cast<double>(step.tokens) / std::max(step.seconds, 1e-9))}};
  append_event(step.step, scalars);
  if (quiet_ || (step.step % every_ != 0 && step.step != step.steps && step.step != 1)) return;
  const double left = seconds_ / static_cast<double>(steps_here_) * static_cast<double>(step.steps - step.step);
  write_error_line("step " + std::to_string(step.step) + "/" + std::to_string(step.steps) + "  loss " + fixed(step.loss, 4) + "  norm " +
                   fixed(step.gradient_norm, 3) + "  rate " + scientific(step.rate) + "  " +
                   fixed(static_cast<double>(tokens_) / std::max(seconds_, 1e-9), 0) + " tokens/s  " + time_words(left) + " left");
}

void TrainingLog::on_evaluation(const quern_training_evaluation& evaluation) {
  validation_.push_back({static_cast<double>(evaluation.step), evaluation.loss});
  append(Json{{"step", evaluation.step},
              {"validation_loss", evaluation.loss},
              {"labels", evaluation.labels},
              {"best", evaluation.best != 0},
              {"seconds", evaluation.seconds}});
  const EventFile::Scalar scalars[] = {{"eval/loss", static_cast<float>(evaluation.loss)}};
  append_event(evaluation.step, scalars);
  if (!quiet_)
    write_error_line("step " + std::to_string(evaluation.step) + ": validation loss " + fixed(evaluation.loss, 4) +
                     (evaluation.best != 0 ? ", the lowest so far" : ""));
  draw();
}

void TrainingLog::draw() const {
  if (!open_ || losses_.empty()) return;
  Chart chart{"loss", "step", "nats a token", {{"training", losses_, {}}}};
  if (!validation_.empty()) chart.series.push_back({"validation", validation_, {}});
  if (const base::FileProblem problem = base::write_file(folder_ + "/loss.svg", charts_svg("Training", {chart})))
    write_error_line("warning: " + problem.text);
}

void TrainingLog::end() { draw(); }

std::vector<std::pair<std::string, double>> TrainingLog::results() const {
  std::vector<std::pair<std::string, double>> results;
  if (!losses_.empty()) results.emplace_back("loss", losses_.back().y);
  if (!validation_.empty()) results.emplace_back("validation_loss", validation_.back().y);
  if (seconds_ > 0) results.emplace_back("tokens_per_second", static_cast<double>(tokens_) / seconds_);
  return results;
}

std::string TrainingLog::closing_page(const std::string& end) const {
  std::string page = "end         " + end + "\n";
  if (!losses_.empty()) page += "loss        " + fixed(losses_.front().y, 4) + " to " + fixed(losses_.back().y, 4) + "\n";
  if (!validation_.empty()) page += "validation  " + fixed(validation_.front().y, 4) + " to " + fixed(validation_.back().y, 4) + "\n";
  return page + "output      " + folder_ + "\n";
}

}  // namespace quern::cli
