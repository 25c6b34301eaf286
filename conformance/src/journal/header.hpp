// The first line of a journal: what was tested, by which suite, on which device. Two runs with equal headers may be joined (--resume);
// `verify` compares a header with what is installed now.
#pragma once

#include "worker/target.hpp"

#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

struct Header {
  std::string suite;        // version, "0.1.0"
  std::string build;        // SHA-256 of the suite's program file
  std::string profile;      // "quick"
  std::string manifest;     // "4364 cases, hash 0123456789abcdef": the mandatory list of the profile
  std::string selection;    // SHA-256 of the names that this run has, sorted, a line each
  std::uint64_t cases = 0;  // of the selection
  std::uint64_t seed = 0;
  std::uint32_t repeat = 1, threads = 0;
  std::map<std::string, std::string> options;      // for the plugins
  std::map<std::string, std::string> environment;  // QUERN_... variables, which may choose kernels
  std::vector<Target> targets;
};

/// Of a run of `names` on `targets`, with this program and this environment.
Header make_header(const Options& options, std::vector<std::string> names, const std::string& manifest, std::vector<Target> targets);

/// One line of JSON without its end.
std::string header_line(const Header& header);
/// Throws UsageError("FILE: ...") if the line is no header.
Header parse_header(const std::string& line, const std::string& file);

/// Empty if both are of one run, else what differs, each with both values: "the plugin of cpu:0 has SHA-256 ..., FILE says ...".
std::vector<std::string> header_differences(const Header& now, const Header& written);

}  // namespace quern::conformance
