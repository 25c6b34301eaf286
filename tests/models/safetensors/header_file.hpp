// A safetensors file from the text of its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quern::test {

/// The length of the header, the header, and `data_bytes` bytes 0, 1, 2, ... behind it.
inline std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  if (!header.empty()) std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (std::size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = static_cast<std::byte>(i);
  return bytes;
}

/// A tensor's record: "name":{"dtype":..}
inline std::string record(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return '"' + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}";
}

}  // namespace quern::test
