// Cases that a backend does not support, each with its kind and reason. One that passes all the same is a failure.
#pragma once

#include "case_table/case_table.hpp"
#include "judge/verdict.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

enum class ExclusionKind { never, not_yet };

struct Exclusion {
  ExclusionKind kind;
  std::string glob;  // on case names
  std::string reason;
};

/// The built-in list of a backend (conformance/exclusions/<id>.def); empty for other ids.
std::vector<Exclusion> builtin_exclusions(const std::string& plugin_id);
/// Lines "never|not_yet GLOB REASON", "#" comments. Throws UsageError naming file and line, also for a glob that no case of `table` has.
std::vector<Exclusion> read_exclusions(const std::string& file, const CaseTable& table);

/// What a verdict counts as under the exclusions: unsupported becomes waived where excluded, else a failure; a pass of an excluded
/// case becomes a failure.
Verdict apply_exclusions(const std::vector<Exclusion>& exclusions, const std::string& case_name, Verdict verdict);

}  // namespace quern::conformance
