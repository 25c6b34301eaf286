// See target_exclusions.hpp.
#include "cli/target_exclusions.hpp"

#include "cli/options.hpp"

#include <algorithm>

namespace quern::conformance {

std::vector<std::vector<Exclusion>> target_exclusions(const std::vector<Target>& targets, const std::string& file, const CaseTable& table) {
  std::vector<std::vector<Exclusion>> lists;
  for (const Target& t : targets) lists.push_back(builtin_exclusions(t.plugin_id));
  if (file.empty()) return lists;
  const std::vector<Exclusion> given = read_exclusions(file, table);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t].plugin_id != targets[0].plugin_id)
      throw UsageError("--exclusions " + file + " is about one backend, and this call tests " + targets[0].plugin_id + " and " +
                       targets[t].plugin_id + "; name one with --backend");
    std::ranges::copy(given, std::back_inserter(lists[t]));
  }
  return lists;
}

}  // namespace quern::conformance
