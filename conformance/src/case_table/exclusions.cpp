// See exclusions.hpp.
#include "case_table/exclusions.hpp"

#include "cli/options.hpp"
#include "journal/named_file.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>

namespace quern::conformance {
namespace {

struct BuiltinExclusion {
  const char* plugin_id;
  ExclusionKind kind;
  const char* glob;
  const char* reason;
};

/// The null row keeps the array from being empty; it belongs to no backend.
constexpr BuiltinExclusion builtin[] = {
#define QUERN_EXCLUSION(plugin_id, kind, glob, reason) {plugin_id, ExclusionKind::kind, glob, reason},
#include "exclusions.def"
#undef QUERN_EXCLUSION
    {"", ExclusionKind::never, "", ""}};

}  // namespace

std::vector<Exclusion> builtin_exclusions(const std::string& plugin_id) {
  std::vector<Exclusion> list;
  for (const BuiltinExclusion& row : builtin)
    if (*row.plugin_id != '\0' && plugin_id == row.plugin_id) list.push_back({row.kind, row.glob, row.reason});
  return list;
}

std::vector<Exclusion> read_exclusions(const std::string& file, const CaseTable& table) {
  std::istringstream in(read_named("--exclusions", file));
  std::vector<Exclusion> list;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string kind, glob, reason;
    words >> kind >> glob >> std::ws;
    std::getline(words, reason);
    if ((kind != "never" && kind != "not_yet") || glob.empty() || reason.empty())
      throw UsageError("--exclusions " + file + ", line " + std::to_string(number) + ": not 'never|not_yet GLOB REASON'");
    if (std::ranges::none_of(table.all(), [&](const Case& c) { return ::fnmatch(glob.c_str(), c.name.c_str(), 0) == 0; }))
      throw UsageError("--exclusions " + file + ", line " + std::to_string(number) + ": '" + glob + "' matches no case of any profile");
    list.push_back({kind == "never" ? ExclusionKind::never : ExclusionKind::not_yet, glob, reason});
  }
  return list;
}

Verdict apply_exclusions(const std::vector<Exclusion>& exclusions, const std::string& case_name, Verdict verdict) {
  if (verdict.status != Status::pass && verdict.status != Status::unsupported) return verdict;
  for (const Exclusion& e : exclusions) {
    if (::fnmatch(e.glob.c_str(), case_name.c_str(), 0) != 0) continue;
    if (verdict.status == Status::pass) {
      verdict.status = Status::fail;
      verdict.text = "passes although it is excluded (" + e.reason + "): take it off the list";
    } else {
      verdict.status = Status::waived;
      verdict.text = e.reason;
    }
    return verdict;
  }
  if (verdict.status == Status::unsupported) {
    verdict.status = Status::fail;
    verdict.text = "not supported, and mandatory: " + verdict.text;
  }
  return verdict;
}

}  // namespace quern::conformance
