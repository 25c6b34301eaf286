// Learning rates, step by step, and how many steps a run has.
//
// The eight schedules are those of transformers' get_scheduler, computed in f64 in the same order, so that rates agree to a few units in
// the last place. Step i counts from 0. Warm-up multiplies by i / warmup_steps, so the first rate is 0 where there is any warm-up.
// Pure functions: no state, no files.
#pragma once

#include <cstdint>
#include <optional>

namespace quern::training {

enum class ScheduleKind {
  constant,
  constant_with_warmup,
  linear,
  cosine,
  cosine_with_restarts,
  polynomial,
  cosine_with_min_lr,
  inverse_sqrt
};

/// The keys of lr_scheduler_kwargs. What is absent has transformers' default.
struct ScheduleOptions {
  std::optional<double> num_cycles;   // cosine, cosine_with_min_lr: 0.5, half a wave; cosine_with_restarts: 1
  std::optional<double> power;        // polynomial: 1
  std::optional<double> lr_end;       // polynomial: 1e-7, a rate
  std::optional<double> min_lr;       // cosine_with_min_lr: a rate; either this or min_lr_rate
  std::optional<double> min_lr_rate;  // cosine_with_min_lr: a share of learning_rate
  std::optional<double> timescale;    // inverse_sqrt: the warm-up steps, or 10,000 without warm-up
  bool operator==(const ScheduleOptions&) const = default;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double learning_rate = 0;  // the highest rate
  std::uint64_t warmup_steps = 0;
  std::uint64_t steps = 0;  // of the whole run
  ScheduleOptions options;
};

/// The rate of a step in f64; of a step beyond the last too, as transformers defines it. Finite and at least 0 for settings that
/// parse_settings has taken.
double exact_rate(const Schedule& schedule, std::uint64_t step);

/// The rate that the update of a step gets: exact_rate, rounded once.
float f32_rate(const Schedule& schedule, std::uint64_t step);

/// Optimiser steps of one epoch: ceil(batches / accumulation); the last window may be short. 0 for accumulation 0.
std::uint64_t steps_of_epoch(std::uint64_t micro_batches, std::uint64_t accumulation);

/// Optimiser steps of a run: max_steps if given, else ceil(epochs * steps_of_epoch). epochs >= 0; at most 2^53.
std::uint64_t steps_of_run(std::uint64_t micro_batches, std::uint64_t accumulation, double epochs, std::optional<std::uint64_t> max_steps);

/// ceil(ratio * steps) in f64, as transformers; ratio from 0 to 1.
std::uint64_t warmup_of_ratio(double ratio, std::uint64_t steps);

}  // namespace quern::training
