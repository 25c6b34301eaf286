// Steps, memory and the clock.
#include "budget.hpp"

#include "lexer.hpp"
#include "text.hpp"

#include <algorithm>
#include <ctime>

namespace quern::jinja {

namespace {

// Steps between two looks at the clock: a look costs about as much as four steps.
constexpr std::uint64_t steps_between_looks = 256;

}  // namespace

double cpu_seconds() noexcept {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Budget::Budget(const std::string& template_name, const TemplateLimits& limits)
    : template_name_(template_name), limits_(limits), started_(cpu_seconds() - limits.cpu_seconds_used) {}

void Budget::fail(const std::string& text) const { fail_at(QUERN_BAD_MODEL, template_name_, line_, text); }

void Budget::unsupported(const std::string& text) const { fail_at(QUERN_UNSUPPORTED, template_name_, line_, text); }

void Budget::refuse(const std::string& text) const { fail_at(QUERN_INVALID_ARGUMENT, template_name_, line_, text); }

void Budget::look() {
  if (steps_ > limits_.steps) { fail(concat("the template takes more than ", limits_.steps, " steps for these messages")); }
  if (!(cpu_seconds() - started_ <= limits_.cpu_seconds)) {
    fail(concat("the template takes more than ", limits_.cpu_seconds,
                " seconds of CPU time; give it more with the option template_seconds if you trust it"));
  }
  next_look_ = std::min(steps_ + steps_between_looks, limits_.steps == UINT64_MAX ? limits_.steps : limits_.steps + 1);
}

void Budget::take(std::uint64_t bytes) {
  if (bytes > limits_.memory_bytes || held_ > limits_.memory_bytes - bytes) {
    fail(concat("the template needs ", bytes, " bytes more than the ", held_, " it has, beyond the limit of ", limits_.memory_bytes));
  }
  held_ += bytes;
}

}  // namespace quern::jinja
