// Runs the helper process that loads and probes one plugin, and turns its end into a result.
#pragma once

#include "exchange.hpp"
#include "verdict.hpp"

#include <chrono>
#include <string>

namespace quern::loader {

/// Runs `program` and waits until it ends or hangs by the rule of progress.hpp (and half a second for it to die). Never throws: a helper that
/// crashes, hangs, exits early or answers nonsense is an examination with that verdict, in the stage that it
/// had reached. A helper that cannot be started is code no_helper.
Examination probe_in_child(const std::string& program, const HelperRequest& request, std::chrono::milliseconds limit);

/// The descriptor on which the helper answers.
inline constexpr int helper_result_fd = 3;

/// The helper's body: answers on helper_result_fd, returns its exit status.
int serve_probe(const std::string& request_text);

}  // namespace quern::loader
