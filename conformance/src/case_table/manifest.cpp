// See manifest.hpp.
#include "case_table/manifest.hpp"

#include "manifests.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

namespace quern::conformance {
namespace {

using Names = std::vector<std::string>;

/// "N<between>H" of the names, whatever their order.
std::string count_and_hash(Names names, const char* between) {
  std::ranges::sort(names);
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a over the names, each with its line end
  for (const std::string& name : names)
    for (const char ch : name + "\n") hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return std::to_string(names.size()) + between + digits;
}

/// The cases that a profile has and no smaller one.
std::map<std::string, Names> own_names_by_family(const CaseTable& table, Profile profile) {
  std::map<std::string, Names> names;
  for (const Case* c : table.of(profile))
    if (c->profile == profile) names[c->family].push_back(c->name);
  return names;
}

/// Family -> "N H", and under an empty name what the first line says.
std::map<std::string, std::string> rows_of(const std::string& manifest) {
  std::map<std::string, std::string> rows;
  std::istringstream lines(manifest);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const std::size_t end = line.starts_with("# ") ? line.find(": ") + 1 : line.find(' ');
    if (end == 0 || end == std::string::npos) continue;
    rows[line.starts_with("# ") ? std::string() : line.substr(0, end)] = line.substr(end + 1);
  }
  return rows;
}

/// "42 1f.." as "42 cases, hash 1f..".
std::string in_words(const std::string& row) {
  const std::size_t space = row.find(' ');
  return row.substr(0, space) + " cases, hash " + row.substr(space + 1);
}

}  // namespace

std::string manifest_text(const CaseTable& table, Profile profile) {
  Names all;
  std::string rows;
  for (const auto& [family, names] : own_names_by_family(table, profile)) {
    all.insert(all.end(), names.begin(), names.end());
    rows += family + " " + count_and_hash(names, " ") + "\n";
  }
  const char* beyond = profile == Profile::full ? " beyond quick" : "";
  return std::string("# ") + profile_name(profile) + beyond + ": " + count_and_hash(std::move(all), " cases, hash ") + "\n" + rows;
}

std::string manifest_line(const CaseTable& table, Profile profile) {
  Names names;
  for (const Case* c : table.of(profile)) names.push_back(c->name);
  return count_and_hash(std::move(names), " cases, hash ");
}

std::string manifest_difference(const CaseTable& table, Profile profile, const std::string& manifest) {
  const std::string text = manifest_text(table, profile);
  if (text == manifest) return {};
  std::map<std::string, std::string> has = rows_of(text), says = rows_of(manifest);
  std::set<std::string> families;
  for (const auto& [family, row] : has) families.insert(family);
  for (const auto& [family, row] : says) families.insert(family);
  families.erase(std::string());
  const std::string name = profile_name(profile);
  std::string problem = "the profile " + name + " is not that of its manifest: it has " + has[{}] + ", the manifest says " +
                        (says[{}].empty() ? "nothing" : says[{}]);
  for (const std::string& family : families) {
    const std::string &now = has[family], &listed = says[family];
    if (now == listed) continue;
    problem += "\n  " + family + ": ";
    if (listed.empty()) problem += in_words(now) + "; the manifest does not list it";
    else if (now.empty()) problem += "no cases; the manifest says " + in_words(listed);
    else problem += in_words(now) + "; the manifest says " + in_words(listed);
  }
  return problem + "\n  if the cases were meant to change: quern-conformance list --profile " + name +
         " --write-manifest conformance/manifest/" + name + ".txt";
}

std::string manifest_problem(const CaseTable& table, Profile profile) {
  if (profile == Profile::full)  // which has quick's cases too
    if (std::string problem = manifest_problem(table, Profile::quick); !problem.empty()) return problem;
  return manifest_difference(table, profile,
                             profile == Profile::quick  ? manifest_quick
                             : profile == Profile::full ? manifest_full
                                                        : manifest_huge);
}

}  // namespace quern::conformance
