#include "quern/training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quern::training {
namespace {

constexpr double most_steps = 9007199254740992.0;  // 2^53: whole numbers up to here are exact in f64

struct Place {
  double step, warmup, steps;
  /// 0 at the end of the warm-up, 1 at the end of the run.
  double progress() const { return (step - warmup) / std::max(1.0, steps - warmup); }
};

double half_wave(double cycles, double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress)); }

double restarted(double cycles, double progress) {
  if (progress >= 1) return 0;
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * std::fmod(cycles * progress, 1.0))));
}

double polynomial(const Schedule& schedule, const Place& at) {
  const double highest = schedule.learning_rate, lowest = schedule.options.lr_end.value_or(1e-7);
  if (at.step > at.steps || at.steps <= at.warmup) return lowest / highest;
  const double left = 1 - (at.step - at.warmup) / (at.steps - at.warmup);
  return ((highest - lowest) * std::pow(left, schedule.options.power.value_or(1)) + lowest) / highest;
}

double with_least(const Schedule& schedule, const Place& at) {
  const ScheduleOptions& options = schedule.options;
  const double least = options.min_lr ? *options.min_lr / schedule.learning_rate : options.min_lr_rate.value_or(0);
  return std::max(0.0, half_wave(options.num_cycles.value_or(0.5), at.progress()) * (1 - least) + least);
}

double inverse_root(const Schedule& schedule, const Place& at) {
  const double scale = schedule.options.timescale.value_or(at.warmup > 0 ? at.warmup : 10'000);
  return 1 / std::sqrt((at.step + (scale - at.warmup)) / scale);
}

double factor(const Schedule& schedule, const Place& at) {
  if (schedule.kind == ScheduleKind::constant) return 1;
  if (at.step < at.warmup) return at.step / std::max(1.0, at.warmup);
  switch (schedule.kind) {
    case ScheduleKind::linear: return std::max(0.0, (at.steps - at.step) / std::max(1.0, at.steps - at.warmup));
    case ScheduleKind::cosine: return std::max(0.0, half_wave(schedule.options.num_cycles.value_or(0.5), at.progress()));
    case ScheduleKind::cosine_with_restarts: return restarted(schedule.options.num_cycles.value_or(1), at.progress());
    case ScheduleKind::polynomial: return polynomial(schedule, at);
    case ScheduleKind::cosine_with_min_lr: return with_least(schedule, at);
    case ScheduleKind::inverse_sqrt: return inverse_root(schedule, at);
    default: return 1;
  }
}

}  // namespace

double exact_rate(const Schedule& schedule, std::uint64_t step) {
  const Place at{static_cast<double>(step), static_cast<double>(schedule.warmup_steps), static_cast<double>(schedule.steps)};
  return schedule.learning_rate * factor(schedule, at);
}

float f32_rate(const Schedule& schedule, std::uint64_t step) { return static_cast<float>(exact_rate(schedule, step)); }

std::uint64_t steps_of_epoch(std::uint64_t micro_batches, std::uint64_t accumulation) {
  if (accumulation == 0) return 0;
  return micro_batches / accumulation + (micro_batches % accumulation != 0);
}

std::uint64_t steps_of_run(std::uint64_t micro_batches, std::uint64_t accumulation, double epochs, std::optional<std::uint64_t> max_steps) {
  if (max_steps) return *max_steps;
  const double steps = std::ceil(epochs * static_cast<double>(steps_of_epoch(micro_batches, accumulation)));
  return static_cast<std::uint64_t>(std::clamp(steps, 0.0, most_steps));
}

std::uint64_t warmup_of_ratio(double ratio, std::uint64_t steps) {
  return static_cast<std::uint64_t>(std::clamp(std::ceil(static_cast<double>(steps) * ratio), 0.0, most_steps));
}

}  // namespace quern::training
