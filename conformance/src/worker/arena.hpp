// Where the tensors of a case lie in shared memory. Parent and device process work it out alike from the case alone.
#pragma once

#include "device_run/case_run.hpp"

#include <cstdint>
#include <span>

namespace quern::conformance {

std::uint64_t input_bytes(const Case& c);   // inputs, then states
std::uint64_t output_bytes(const Case& c);  // of one mode

/// Views over `arena`, which has input_bytes(c).
CaseData map_data(const Case& c, std::span<std::byte> arena);
/// Fills them, seeded by seeded_name(). `constants`: inputs that are constants too, which inputs of a `derive` need.
void fill_data(const Case& c, const CaseData& data, std::uint64_t seed = 0, bool constants = true);
/// What seeds a case's data: its name, and with a seed "name#seed".
std::string seeded_name(const Case& c, std::uint64_t seed);
/// Views of one mode's outputs over `arena`, which has output_bytes(c).
std::vector<Tensor> map_outputs(const Case& c, std::span<std::byte> arena);

}  // namespace quern::conformance
