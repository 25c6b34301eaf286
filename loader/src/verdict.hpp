// The result of one check of one plugin.
#pragma once

#include "codes.hpp"
#include "quern/loader/report.hpp"

#include <string>
#include <string_view>

namespace quern::loader {

struct Verdict {
  std::string code = code::ok;
  std::string cause;
  std::string remedy;
  std::string raw_error;

  bool ok() const { return code == code::ok; }
};

/// What the helper process (or this one) found out about a plugin in S1 to S3.
struct ProbedDevice {
  DeviceInfo info;
  Verdict verdict;
  double bandwidth = 0;
};

struct Examination {
  Stage stage = Stage::load;  // the last stage reached
  Verdict verdict;
  std::string id;
  std::string version;
  std::string build;
  std::uint32_t abi_minor = 0;
  std::vector<Reason> reasons;
  std::vector<ProbedDevice> devices;
  std::string printed;
};

}  // namespace quern::loader
