// What a plugin must leave as it found it, read from the process.
#pragma once

#include <map>
#include <string>

namespace quern::conformance::abi {

/// Environment, signal handlers and mask, locale, working directory, umask, floating-point mode, name of the calling thread, threads,
/// open descriptors, and how much was written to stdout and stderr.
class ProcessState {
 public:
  static ProcessState now();
  /// "locale was C, is de_DE; ...", or empty.
  std::string difference(const ProcessState& later) const;

 private:
  std::map<std::string, std::string> parts_;
};

}  // namespace quern::conformance::abi
