// quern-conformance: proves plugins, case by case. The parent process loads no plugin.
#include "cli/completions.hpp"
#include "cli/flags.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "quern/base/nearest.hpp"
#include "worker/device_process.hpp"
#include "worker/target.hpp"

#include "quern/base/standard_descriptors.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

namespace {

using namespace quern::conformance;

int run(const Options& options) {
  if (options.help) {
    to_output() << usage_text();
    return 0;
  }
  if (options.version) {
    to_output() << "quern-conformance " QUERN_SUITE_VERSION "\n";
    return 0;
  }
  if (options.show_config) {
    to_output() << config_page(options);
    return 0;
  }
  if (options.verb == "run") return run_verb(options);
  if (options.verb == "list") return list_verb(options);
  if (options.verb == "kernels") return kernels_verb(options);
  if (options.verb == "selftest") return selftest_verb(options);
  if (options.verb == "report") return report_verb(options);
  if (options.verb == "verify") return verify_verb(options);
  if (options.verb == "bench") return bench_verb(options);
  if (options.verb == "audit") return audit_verb(options);
  if (options.verb == "survey") return survey_main(options.selection);
  if (options.verb == "device-process") return device_main(options.selection, options.argument, options.seed);
  if (options.verb == "completions") return write_completions(options.argument);
  if (options.verb.empty()) throw UsageError("a verb is missing: run, list, kernels, selftest, report, verify, bench or audit; see --help");
  std::vector<std::string> names;
  for (const VerbRow& row : verb_table()) names.emplace_back(row.name);
  throw UsageError("'" + options.verb + "' is no verb" + quern::did_you_mean(options.verb, names) + "; --help lists them");
}

/// The code of a run whose results may not have reached standard output.
int with_output(int code) {
  to_output().flush();
  const int problem = output_problem();
  if (problem == 0) return code;
  if (problem != EPIPE) write_error(std::string("standard output: cannot be written: ") + std::strerror(problem));
  return code == 0 ? 2 : code;
}

}  // namespace

int main(int count, char** arguments) {
  quern::hold_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a device process that died is found by its answer
  std::signal(SIGXFSZ, SIG_IGN);  // shared memory beyond the limit of a file's size is an error with a name
  try {
    return with_output(run(parse_options({arguments + 1, arguments + count})));
  } catch (const UsageError& error) {
    write_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    write_error(error.what());
    return 70;
  }
}
