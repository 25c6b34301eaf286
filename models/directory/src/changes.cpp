#include "changes.hpp"

#include "quern/models/floats.hpp"

#include <cstring>
#include <utility>

namespace quern::directory {
namespace {

std::vector<std::byte> interleaved(std::span<const std::byte> lying, std::uint64_t heads, std::uint64_t rows) {
  std::vector<std::byte> made(lying.size());
  const std::uint64_t row_bytes = lying.size() / rows, head_rows = rows / heads, half = head_rows / 2;
  for (std::uint64_t head = 0; head < heads; ++head)
    for (std::uint64_t row = 0; row < head_rows; ++row) {
      const std::uint64_t to = row < half ? 2 * row : 2 * (row - half) + 1;
      std::memcpy(made.data() + (head * head_rows + to) * row_bytes, lying.data() + (head * head_rows + row) * row_bytes, row_bytes);
    }
  return made;
}

std::vector<std::byte> bytes_of(std::span<const float> numbers) {
  const std::span<const std::byte> bytes = std::as_bytes(numbers);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

gguf::TensorChange tensor_change(const Change& change) {
  const bool widens = change.from != change.to;
  if (change.heads == 0 && !widens) return {};
  if (!widens) return [change](std::span<const std::byte> lying) { return interleaved(lying, change.heads, change.rows); };
  return [change](std::span<const std::byte> lying) {
    if (change.heads == 0) return bytes_of(models::decode_floats(change.from, lying));
    return bytes_of(models::decode_floats(change.from, interleaved(lying, change.heads, change.rows)));
  };
}

gguf::TensorChange made_of(std::vector<float> numbers) {
  return [numbers = std::move(numbers)](std::span<const std::byte>) { return bytes_of(numbers); };
}

}  // namespace quern::directory
