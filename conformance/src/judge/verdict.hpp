// How one case ended on one device.
#pragma once

#include <cstdint>
#include <string>

namespace quern::conformance {

/// From best to worst; merging takes the worse. Only pass, unsupported (where the case is excluded as never) and waived are green.
enum class Status { pass, unsupported, waived, resource, unknown, fail, device_lost, timeout, crash };
const char* status_name(Status status);
/// Throws std::invalid_argument for a word that is none.
Status status_of(const std::string& name);

struct Verdict {
  Status status = Status::unknown;
  std::string text;            // why, for all but pass: which element, what was found, what was expected
  double worst = 0;            // largest |y - r| / bound over the elements
  std::uint64_t compared = 0;  // elements
  std::string tier;            // the best tier that the sums attain, where the case is an accumulation

  /// Takes the worse of both; numbers are joined.
  void merge(const Verdict& other);
};

}  // namespace quern::conformance
