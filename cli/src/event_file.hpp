// A file of scalars that TensorBoard reads.
//
// Records of the TFRecord form, each a protobuf Event. Only the fields that scalars need are written.
#pragma once

#include "quern/base/files.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::cli {

/// CRC-32C (Castagnoli, RFC 3720 B.4) of the bytes.
std::uint32_t crc32c(std::string_view bytes) noexcept;

class EventFile {
 public:
  using Scalar = std::pair<std::string_view, float>;  // tag and value

  /// A new file in the folder, named by `seconds` since 1970 and this machine, as TensorBoard orders them. Steps behind `step` in files
  /// before it do not count any more.
  [[nodiscard]] static base::FileProblem open(const std::string& folder, double seconds, std::uint64_t step, EventFile& out);

  [[nodiscard]] base::FileProblem append(double seconds, std::uint64_t step, std::span<const Scalar> scalars);
  const std::string& path() const noexcept { return file_.path(); }

 private:
  base::GrowingFile file_;
};

}  // namespace quern::cli
