// What was recorded, as one JSON object.
#pragma once

#include "../program.hpp"

#include <span>
#include <string>

namespace quern::c_api {

/// The Chrome trace event format, with the nodes and the kernels of all programs beside the events. One program at least.
std::string trace_json(const runtime::Trace& trace, std::span<const runtime::Program* const> programs);

}  // namespace quern::c_api
