// See kernel_coverage.hpp.
#include "report/kernel_coverage.hpp"

#include "cli/options.hpp"
#include "journal/header.hpp"
#include "journal/named_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

namespace quern::conformance {
namespace {

using nlohmann::json;

std::string first_part(const std::string& name) { return name.substr(0, name.find('.')); }
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::set<std::string> op_names() {
  return {
#define QUERN_OP(id, NAME, name, ...) #name,
#include "quern/ops.def"
#undef QUERN_OP
  };
}

bool is_name_character(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '_' || ch == '.'; }

/// The kernels of one result: "a+b, c".
std::set<std::string> kernels_of(const std::string& text) {
  std::set<std::string> names;
  std::string name;
  for (const char ch : text + "+") {
    if (is_name_character(ch)) {
      name += ch;
      continue;
    }
    if (!name.empty()) names.insert(std::exchange(name, {}));
  }
  return names;
}

}  // namespace

std::set<std::string> kernel_words(const std::string& contents, const std::map<std::string, std::size_t>& reached) {
  std::set<std::string> heads = op_names(), tails, words;
  for (const auto& [name, cases] : reached) heads.insert(first_part(name)), tails.insert(last_part(name));
  for (std::size_t at = 0; at < contents.size();) {
    std::size_t end = at;
    while (end < contents.size() && is_name_character(contents[end])) ++end;
    const std::string word = contents.substr(at, end - at);
    const bool whole = end < contents.size() && contents[end] == '\0' && (at == 0 || contents[at - 1] == '\0');
    const auto dots = std::ranges::count(word, '.');
    if (whole && dots > 0 && heads.contains(first_part(word)) && tails.contains(last_part(word))) words.insert(word);
    at = end + 1;
  }
  return words;
}

std::vector<KernelCoverage> kernel_coverage(const std::string& journal) {
  std::istringstream in(read_named("--journal", journal));
  std::string line;
  if (!std::getline(in, line)) throw UsageError("--journal " + journal + ": is empty");
  std::map<std::string, KernelCoverage> by_target;
  for (const Target& t : parse_header(line, journal).targets) by_target[t.label] = {t.label, t.path, {}, {}};
  while (std::getline(in, line)) {
    const json j = json::parse(line, nullptr, false);
    if (j.is_discarded() || !j.contains("end") || !by_target.contains(j.value("target", std::string()))) continue;
    if (!j.contains("kernel") || !j.at("kernel").is_string()) throw UsageError("--journal " + journal + ": a result names no kernels");
    for (const std::string& name : kernels_of(j.at("kernel"))) ++by_target[j.at("target")].reached[name];
  }
  std::vector<KernelCoverage> result;
  for (auto& [label, coverage] : by_target) {
    std::string contents;
    if (const base::FileProblem problem = base::read_file(coverage.path, contents, {.most = 1 << 30}))
      throw UsageError("--journal " + journal + ": " + label + " was " + coverage.path + ", which cannot be read here (" + problem.text +
                       "); the plugin's file names its kernels");
    for (const std::string& word : kernel_words(contents, coverage.reached))
      if (!coverage.reached.contains(word)) coverage.unreached.insert(word);
    result.push_back(std::move(coverage));
  }
  return result;
}

std::string coverage_text(const KernelCoverage& c, bool verbose) {
  std::string text = c.target + ": " + std::to_string(c.reached.size()) + " kernels reached; " + std::to_string(c.unreached.size()) +
                     " more are named in " + c.path + "\n";
  if (verbose)
    for (const auto& [name, cases] : c.reached) text += "  " + name + "  " + std::to_string(cases) + "\n";
  for (const std::string& name : c.unreached) text += "  not reached: " + name + "\n";
  return text;
}

}  // namespace quern::conformance
