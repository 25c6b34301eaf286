// See forced_kernels.hpp.
#include "device_run/forced_kernels.hpp"

#include "device_run/case_graph.hpp"
#include "device_run/flat_graph.hpp"
#include "device_run/graph_run.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace quern::conformance {
namespace {

constexpr const char* no_kernel = "no.such.kernel";

/// The words of a refusal that could be families or kernels, each once.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char ch : text + " ") {
    const bool part = (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch == '_' || (ch == '.' && !word.empty());
    if (part) {
      word += ch;
      continue;
    }
    while (!word.empty() && word.back() == '.') word.pop_back();
    if (word.size() >= 3 && word != no_kernel) words.insert(word);
    word.clear();
  }
  return words;
}

bool ran_before(const std::vector<ModeResult>& results, const ModeResult& mode) {
  return std::ranges::any_of(results, [&](const ModeResult& r) {
    return r.numerics == mode.numerics && r.packed == mode.packed && r.as_session == mode.as_session && r.role == mode.role &&
           r.kernel == mode.kernel && r.outcome == Outcome::ran;
  });
}

/// The results of a graph under one family come in groups, one a numerics and packing. Left are those whose plans have kernels of
/// their own and were not refused; a group stays whole, since its modes are compared with each other.
void add_groups(const std::vector<ModeResult>& modes, const std::string& family, std::vector<ModeResult>& results) {
  std::vector<ModeResult> added;
  for (const Numerics numerics : {Numerics::exact, Numerics::fast})
    for (const bool packed : {false, true}) {
      const auto in_group = [&](const ModeResult& m) { return m.numerics == numerics && m.packed == packed; };
      const bool is_new = std::ranges::any_of(modes, [&](const ModeResult& m) {
        return in_group(m) && m.outcome != Outcome::unsupported && (m.role == Role::whole || m.role == Role::unfused) &&
               !ran_before(results, m);
      });
      if (is_new) std::ranges::copy_if(modes, std::back_inserter(added), in_group);
    }
  for (ModeResult& mode : added) mode.family = family;
  std::ranges::move(added, std::back_inserter(results));
}

}  // namespace

const std::vector<std::string>& ForcedKernels::families(const loader::Device& device, std::uint32_t op, const quern_graph* graph) {
  const auto known = families_.find(op);
  if (known != families_.end()) return known->second;
  std::vector<std::string>& found = families_[op];
  const std::string text = Prepared::refusal(device, graph, plan_forced(no_kernel));
  if (text.empty()) accepted_nonsense_ = no_kernel;
  for (const std::string& word : words_of(text))
    if (Prepared::plan_of(device, graph, plan_forced(word))) found.push_back(word);
  return found;
}

loader::Device& ForcedKernels::device_of(const std::string& family) {
  std::shared_ptr<loader::Device>& device = devices_[family];
  if (!device) device = open_(family);
  return *device;
}

void ForcedKernels::run_by_name(const loader::Device& device, const Case& c, const CaseData& data, const std::string& name,
                                std::vector<ModeResult>& results) {
  bool reached = false;
  for (ModeResult& mode : run_case(device, c, data, plan_forced(name))) {
    if (mode.outcome == Outcome::unsupported) continue;
    if (mode.outcome == Outcome::ran && mode.kernel != name) {
      mode.outcome = Outcome::failed;
      mode.text = "force_kernel=" + name + " was accepted, and the plan names " + mode.kernel;
    }
    reached = true;
    results.push_back(std::move(mode));
  }
  if (reached) return;
  ModeResult refused;
  refused.label = name;
  refused.text = "a plan names this kernel, and forcing it is refused in every mode";
  results.push_back(std::move(refused));
}

std::vector<ModeResult> ForcedKernels::run(const loader::Device& device, const Case& c, const CaseData& data) {
  std::vector<ModeResult> results = c.graph ? run_whole_graph(device, c, data) : run_node(device, c, data);
  if (!accepted_nonsense_.empty()) {
    ModeResult wrong;
    wrong.label = accepted_nonsense_;
    wrong.text = "compile accepted force_kernel=" + accepted_nonsense_ + " [C29]";
    results.push_back(std::move(wrong));
  }
  return results;
}

std::vector<ModeResult> ForcedKernels::run_whole_graph(const loader::Device& device, const Case& c, const CaseData& data) {
  std::vector<ModeResult> results = run_graph(device, c, data);
  if (device.api().plan_info == nullptr) return results;  // nothing tells a kernel's name
  std::set<std::string> names;
  for (std::size_t n = 0; n < c.graph->nodes.size(); ++n) {
    const FlatGraph node(*c.graph, Numerics::exact, OnlyNode{n});
    const std::vector<std::string>& found = families(device, c.graph->nodes[n].op, node.graph());
    names.insert(found.begin(), found.end());
  }
  for (const std::string& family : names) add_groups(run_graph(device_of(family), c, data, false), family, results);
  return results;
}

std::vector<ModeResult> ForcedKernels::run_node(const loader::Device& device, const Case& c, const CaseData& data) {
  std::vector<ModeResult> results = run_case(device, c, data);
  if (device.api().plan_info == nullptr) return results;  // nothing tells a kernel's name
  std::map<std::string, const loader::Device*> names;     // and where it was told
  const auto note = [&](const std::vector<ModeResult>& modes, const loader::Device& where) {
    for (const ModeResult& mode : modes)
      if (mode.outcome == Outcome::ran)
        for (const std::string& name : mode.facts.kernels) names.emplace(name, &where);
  };
  note(results, device);
  const CaseGraph graph(c, 0);
  for (const std::string& family : families(device, c.op, graph.graph())) {
    const loader::Device& forced = device_of(family);
    std::vector<ModeResult> modes = run_case(forced, c, data);
    note(modes, forced);
    for (ModeResult& mode : modes) {
      if (ran_before(results, mode) || mode.outcome == Outcome::unsupported) continue;
      mode.family = family;
      results.push_back(std::move(mode));
    }
  }
  for (const auto& [name, where] : names) run_by_name(*where, c, data, name, results);
  return results;
}

}  // namespace quern::conformance
