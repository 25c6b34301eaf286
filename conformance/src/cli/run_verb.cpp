// run: the cases on every target, the journal and the matrix.
#include "case_table/manifest.hpp"
#include "case_table/selection.hpp"
#include "cli/interrupt_watch.hpp"
#include "cli/output.hpp"
#include "cli/target_exclusions.hpp"
#include "cli/verbs.hpp"
#include "cli/write_reports.hpp"
#include "quern/base/progress_line.hpp"
#include "quern/loader/host_limits.hpp"
#include "report/matrix.hpp"
#include "worker/dealing.hpp"
#include "worker/jobs.hpp"
#include "worker/run_cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace quern::conformance {

namespace {

/// Cases run side by side, so that each plugin gets its share of the processors, but two threads: one would hide what threads do wrong.
Options with_threads(Options options, const std::vector<Target>& targets) {
  const std::uint32_t processors = loader::usable_processors();
  if (options.jobs == 0) options.jobs = jobs_for(processors, targets, [&](const Target& t) { return memory_of(t, options.selection); });
  const bool chosen = options.selection.threads != 0 || std::getenv("QUERN_THREADS") != nullptr;
  if (!chosen && options.jobs > 1) options.selection.threads = std::max(2u, processors / options.jobs);
  return options;
}

}  // namespace

int run_verb(const Options& given) {
  const CaseTable table;
  if (const std::string problem = manifest_problem(table, given.profile); !problem.empty()) {
    std::istringstream lines(problem);
    for (std::string line; std::getline(lines, line);) write_error(line);
    return 70;
  }
  RunPlan plan;
  plan.cases = select_cases(table, given);
  if (!given.stop_at_failure) longest_first(plan.cases);
  const Survey survey = find_targets(given.selection);
  if (survey.exit_code != 0) {
    write_error(survey.error);
    return survey.exit_code;
  }
  const Options options = with_threads(given, survey.targets);
  plan.targets = survey.targets;
  plan.selection = options.selection;
  plan.seed = options.seed;
  plan.repeat = options.repeat;
  plan.stop_at_failure = options.stop_at_failure;
  plan.deadline_seconds = options.deadline;
  plan.jobs = options.jobs;
  plan.threads_of_a_lane = std::max(1u, loader::usable_processors() / options.jobs);
  plan.memory_limit = options.memory;
  plan.exclusions = target_exclusions(plan.targets, options.exclusions, table);
  std::vector<std::string> names;
  for (const Case* c : plan.cases) names.push_back(c->name);
  {
    const InterruptWatch watch("stopped; " + options.journal + " holds what has run: the same command with --resume goes on from there");
    const Header header = make_header(options, names, manifest_line(table, options.profile), plan.targets);
    Journal journal(options.journal, options.resume, header, survey.left_out);
    ProgressMeter meter("running", profile_name(options.profile), "cases");
    const std::uint64_t total = std::uint64_t{plan.cases.size()} * plan.targets.size();
    std::uint64_t done = 0;
    run_cases(plan, journal, [&](const Case&, std::size_t, const CaseResult&) {
      if (const auto line = meter.line(++done, total, columns_of_messages())) draw_progress(*line);
    });
    erase_progress();
    journal.totals(Matrix(read_record(options.journal)).json());
  }
  const Record record = read_record(options.journal);
  write_reports(record, options);
  return print_summary(record, options.verbose);
}

}  // namespace quern::conformance
