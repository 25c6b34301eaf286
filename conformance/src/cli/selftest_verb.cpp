// selftest: proves that the suite finds what it is there to find.
#include "cli/verbs.hpp"
#include "cli/output.hpp"
#include "quern/loader/host_limits.hpp"
#include "selftest/selftest.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

namespace quern::conformance {
namespace {

namespace fs = std::filesystem;

/// Where the wrappers lie: beside the program's lib folder, in the build tree as where it is installed.
std::string wrapper_directory(const Options& options) {
  if (!options.mutants.empty()) return options.mutants;
  const fs::path prefix = fs::read_symlink("/proc/self/exe").parent_path().parent_path();
  for (const char* lib : {"lib", QUERN_INSTALL_LIBDIR})
    if (const fs::path folder = prefix / lib / "quern/conformance"; fs::exists(folder / "libbackend_mutant.so")) return folder.string();
  throw UsageError("selftest: libbackend_mutant.so is not below " + prefix.string() + "; name its folder with --mutants");
}

std::vector<Mutant> chosen_mutants(const Options& options) {
  if (options.mutant_filters.empty()) return mutants();
  std::vector<Mutant> list;
  std::vector<bool> used(options.mutant_filters.size());
  for (const Mutant& m : mutants()) {
    bool any = false;
    for (std::size_t f = 0; f < used.size(); ++f)
      if (::fnmatch(options.mutant_filters[f].c_str(), m.name.c_str(), 0) == 0) any = used[f] = true;
    if (any) list.push_back(m);
  }
  for (std::size_t f = 0; f < used.size(); ++f)
    if (!used[f]) throw UsageError("--mutant: '" + options.mutant_filters[f] + "' matches no mutant");
  return list;
}

const char* end_name(Fate::End end) {
  switch (end) {
    case Fate::End::killed: return "killed";
    case Fate::End::survived: return "SURVIVED";
    case Fate::End::other_reason: return "FAILED FOR ANOTHER REASON";
    case Fate::End::unmatched: return "NO CASE MATCHES";
    case Fate::End::broken: return "BROKEN";
  }
  return "";
}

std::string sentence(const Mutant& m, const Fate& f) {
  std::string text = m.name + " (" + m.what + "): " + end_name(f.end);
  switch (f.end) {
    case Fate::End::killed:
      if (m.total) {
        text += " by each of " + std::to_string(f.ran - f.without_work) + " cases";
        if (f.without_work != 0) text += " (" + std::to_string(f.without_work) + " more expect that nothing changes)";
        return text + ", first " + f.by;
      }
      return text + " by " + f.by + "\n    " + f.text;
    case Fate::End::survived: return text + " " + std::to_string(f.ran) + " cases" + (f.text.empty() ? "" : "\n    " + f.text);
    case Fate::End::other_reason: return text + " than '" + sign_name(m.sign) + "' in " + f.by + "\n    " + f.text;
    default: return text + (f.text.empty() ? "" : "\n    " + f.text);
  }
}

/// The good plugin: the one that is named, else the CPU plugin that the loader finds.
std::string base_plugin(const Options& options) {
  Selection selection = options.selection;
  if (selection.backend.empty() && selection.plugins.empty()) selection.backend = "cpu";
  const Survey survey = find_targets(selection);
  if (survey.targets.empty()) throw UsageError("selftest: no plugin to spoil: " + survey.error);
  return survey.targets.front().path;
}

}  // namespace

int selftest_verb(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const CaseTable table;
  const std::vector<Mutant> chosen = chosen_mutants(options);
  SelftestPlan plan{wrapper_directory(options), base_plugin(options), options.jobs != 0 ? options.jobs : loader::usable_processors(), {}};
  if (std::ranges::any_of(chosen, [](const Mutant& m) { return m.sign == Sign::audit; })) find_session_program(plan.audit);
  const std::vector<Fate> fates = run_mutants(plan, table, chosen);
  std::size_t checked = 0;
  const std::vector<FalseKill> false_kills = run_unspoiled(plan, table, chosen, fates, checked);

  // What is wrong stands first, where a long output is cut.
  for (const FalseKill& f : false_kills) to_output() << "THE UNSPOILED WRAPPER FAILS " << f.name << "\n    " << f.text << "\n";
  std::size_t killed = 0;
  for (const bool found : {false, true})
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if ((fates[i].end == Fate::End::killed) != found) continue;
      to_output() << sentence(chosen[i], fates[i]) << "\n";
      killed += found ? 1 : 0;
    }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  to_output() << chosen.size() << " mutants: " << killed << " killed, " << chosen.size() - killed << " not; the unspoiled wrapper passes "
              << checked - false_kills.size() << " of the " << checked << " cases that killed; " << std::lround(seconds) << " s\n";
  return killed == chosen.size() && killed > 0 && false_kills.empty() ? 0 : 7;
}

}  // namespace quern::conformance
