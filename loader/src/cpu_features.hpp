// Which instruction sets this processor has and this system lets programs use.
#pragma once

#include <cstdint>
#include <string>

namespace quern::loader {

/// QUERN_CPU_... bits: CPUID says that the instructions exist, XCR0 that the system saves their registers.
std::uint64_t usable_cpu_features();

/// "avx2, fma"; a bit that this version does not know is "bit 12".
std::string feature_names(std::uint64_t features);

}  // namespace quern::loader
