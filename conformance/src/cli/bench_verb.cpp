// bench: times cases on every target, one after another, each timed result checked.
#include "bench/bench_table.hpp"
#include "bench/work.hpp"
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "cli/output.hpp"
#include "cli/target_exclusions.hpp"
#include "cli/verbs.hpp"
#include "journal/named_file.hpp"
#include "report/matrix.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

/// From this length on a run says what the device can do: the submit and the fence, some 20 us on a GPU, are then 1 % of a copy; a product
/// has filled every unit of the device.
double long_enough(Peak peak) { return peak == Peak::latency ? 0.0 : peak == Peak::bandwidth ? 0.002 : 0.03; }

/// Copies and products grow until one is long enough; the best rate counts. A peak whose result is wrong is none, and a problem; one that
/// the device does not support is none, and a note: shares of it are not told.
void measure_peaks(const CaseTable& table, std::uint32_t samples, BenchRun& run, DeviceBench& bench, std::string& problems,
                   std::string& notes) {
  std::map<Peak, bool> done;
  for (const PeakCase& p : peak_cases(table)) {
    if (done[p.peak]) continue;
    const BenchResult r = run.run(p.what, samples);
    if (r.verdict.status != Status::pass) {
      std::string& text = r.verdict.status == Status::unsupported ? notes : problems;
      text += std::string(peak_name(p.peak)) + ": " + status_name(r.verdict.status) + ": " + r.verdict.text + "\n";
      done[p.peak] = true;
      continue;
    }
    const Work work = work_of(p.what);
    const double value = p.peak == Peak::latency     ? r.median()
                         : p.peak == Peak::bandwidth ? work.bytes / r.median()
                                                     : work.flops / r.median();
    double& best = bench.peaks[p.peak];
    best = std::max(best, value);
    done[p.peak] = r.median() >= long_enough(p.peak);
  }
}

}  // namespace

int bench_verb(const Options& options) {
  const CaseTable table;
  const bool chosen = !options.filters.empty() || !options.ops.empty() || !options.dtypes.empty() || !options.groups.empty();
  const std::vector<const Case*> cases = timed_cases(select_cases(table, options), !chosen);
  const Survey survey = find_targets(options.selection);
  if (survey.exit_code != 0) {
    write_error(survey.error);
    return survey.exit_code;
  }
  const std::vector<std::vector<Exclusion>> exclusions = target_exclusions(survey.targets, options.exclusions, table);
  bool green = !cases.empty();
  std::vector<DeviceBench> devices;
  for (const Target& target : survey.targets) {
    DeviceBench bench{target, {}, {}};
    BenchRun run(target, options.selection, options.seed);
    std::string problems, notes;
    measure_peaks(table, options.samples, run, bench, problems, notes);
    green = green && problems.empty();
    for (const Case* c : cases) {
      BenchResult result = run.run(*c, options.samples);
      result.verdict = apply_exclusions(exclusions[devices.size()], c->name, std::move(result.verdict));
      green = green && is_green(result.verdict.status);
      bench.rows.push_back({c, std::move(result)});
    }
    to_output() << bench_text(bench) << notes << problems << std::flush;
    devices.push_back(std::move(bench));
  }
  if (!options.json.empty()) {
    std::vector<std::string> names;
    for (const Case* c : cases) names.push_back(c->name);
    write_named("--json", options.json,
                bench_json(make_header(options, names, manifest_line(table, options.profile), survey.targets), devices));
  }
  if (cases.empty()) write_error("no case of the selection can be timed");
  return green ? 0 : 7;
}

}  // namespace quern::conformance
