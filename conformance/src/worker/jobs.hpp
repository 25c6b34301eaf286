// How many cases run at once, where nobody says it.
#pragma once

#include "worker/target.hpp"

#include <functional>

namespace quern::conformance {

/// One a processor. Each job is a process on each device, though: on a device with memory of its own at most 6, and one for each GiB that it
/// has free. A process takes up to half of that for the driver's context and code, and cases of 64 MiB and more run one at a time.
/// `memory`: bytes that a device has free; 0: unknown. It is asked only of devices that no processor of the host's works for.
std::uint32_t jobs_for(std::uint32_t processors, const std::vector<Target>& targets,
                       const std::function<std::uint64_t(const Target&)>& memory);

/// What a device process of this target finds free; 0 where it does not open.
std::uint64_t memory_of(const Target& target, const Selection& selection);

}  // namespace quern::conformance
