// Codes of a weight as the tensors that quantised directories have for it: quantised_<method>.cpp, the other way round.
#pragma once

#include "quern/graph/json_writer.hpp"
#include "quern/models/directory_writer.hpp"
#include "quern/models/safetensors.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::directory {

struct StoredPart {
  std::string name;
  safetensors::Dtype dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes;
};

/// The tensors of one weight, whose names begin with `front`.
std::vector<StoredPart> packed_parts(const models::PackedForm& form, std::string_view front, std::uint64_t rows, std::uint64_t columns);

/// Their bytes, in the same order. Throws Error(QUERN_INVALID_ARGUMENT) for codes, scales and zero points of other sizes.
std::vector<std::vector<std::byte>> packed_bytes(const models::PackedForm& form, std::uint64_t rows, std::uint64_t columns,
                                                 const models::WeightCodes& codes);

/// The field quantization_config. `plain` are modules whose weights stay numbers.
void write_quantisation(const models::PackedForm& form, const std::vector<std::string>& plain, JsonWriter& json);

}  // namespace quern::directory
