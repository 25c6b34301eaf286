// The header: JSON text to tensors, checked against the bytes that follow it.
#pragma once

#include "quern/models/safetensors.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::safetensors {

struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;     ///< by offset, which counts from the start of the file
  std::vector<std::uint32_t> by_name;  ///< numbers of tensors, sorted by their names
};

/// Reads the `text` of a header behind which `data_bytes` bytes lie, from byte 8 + text.size() of the file on. Throws
/// Error(QUERN_BAD_MODEL).
Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

/// The header's text, padded with spaces to whole words of 8 bytes. `tensors` are in order, and their offsets count from the end of the
/// header.
std::string header_text(const std::map<std::string, std::string>& metadata, const std::vector<TensorInfo>& tensors);

}  // namespace quern::safetensors
