// The `quern` program: parses, resolves the settings, calls one verb, turns what went wrong into an exit code.
#include "command_line.hpp"
#include "effective.hpp"
#include "failure.hpp"
#include "log.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "plugin_fault.hpp"
#include "plugin_output.hpp"
#include "show_config.hpp"
#include "verbs/verbs.hpp"

#include "quern/base/standard_descriptors.hpp"

#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <vector>

namespace quern::cli {
namespace {

std::string version_text() {
  return std::string("quern ") + quern_version() + "\nbuild " + quern_build() + "\nplugin ABI " + std::to_string(quern_plugin_abi_epoch()) +
         "." + std::to_string(quern_plugin_abi_minor());
}

std::vector<std::string> names_of_variables() {
  std::vector<std::string> names;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view entry = *one;
    if (entry.starts_with("QUERN_")) names.emplace_back(entry.substr(0, entry.find('=')));
  }
  return names;
}

int dispatch(const std::vector<std::string>& arguments) {
  const std::vector<std::string> files = config_paths(process_environment);
  Config config;
  bool read = false;
  const auto config_once = [&]() -> const Config& {
    if (!read) config = read_config(files);
    read = true;
    return config;
  };
  CommandLine line = parse_command_line(arguments, version_text(), process_environment, config_once);
  config_once();
  const Settings settings = resolve_settings(line.settings, process_environment, config);
  if (line.show_config) {
    const EffectiveDefaults defaults = effective_defaults(line, settings);
    if (line.json) write_json(config_json(line, process_environment, config, files, defaults));
    else write_out(config_page(line, process_environment, config, files, defaults));
    return exit_ok;
  }
  set_log_level(settings.log_level);
  for (const std::string& sentence : misspelt_variables(names_of_variables()))
    log_from_library(nullptr, QUERN_LEVEL_WARN, "environment", sentence.c_str());
  if (std::string* model = line.model()) *model = model_path(*model, settings, {line.named.pull, line.verb == Verb::run, line.quiet});
  switch (line.verb) {
    case Verb::run: return run_verb(line, settings);
    case Verb::tokenize: return tokenize_verb(line, settings);
    case Verb::eval: return eval_verb(line, settings);
    case Verb::bench: return bench_verb(line, settings);
    case Verb::devices: return devices_verb(line, settings);
    case Verb::doctor: return doctor_verb(line, settings);
    case Verb::show: return show_verb(line);
    case Verb::estimate: return estimate_verb(line, settings);
    case Verb::pull: return pull_verb(line, settings);
    case Verb::list: return list_verb(line, settings);
    case Verb::monitor: return monitor_verb(line);
    case Verb::ps: return ps_verb(line);
    case Verb::trace: return trace_verb(line);
    case Verb::train: return train_verb(line, settings);
    case Verb::merge: return merge_verb(line, settings);
    case Verb::quantize: return quantize_verb(line, settings);
    case Verb::imatrix: return imatrix_verb(line, settings);
    case Verb::export_adapter: return export_verb(line);
    case Verb::convert: return convert_verb(line, settings);
    case Verb::rm: return rm_verb(line, settings);
  }
  return exit_bug;
}

/// The page of --help or --version; a failure is said here, since it may come while another exception is handled.
int answer_page(const std::string& text) {
  try {
    write_out(text);
    return exit_ok;
  } catch (const Failure& failure) {
    write_error_line(std::string("quern: ") + failure.what());
    return failure.code();
  }
}

int guarded_main(const std::vector<std::string>& arguments) {
  try {
    return dispatch(arguments);
  } catch (const Answered& answered) { return answer_page(answered.text); } catch (const Failure& failure) {
    for (const std::string& sentence : other_names_used(arguments)) write_error_line("note: " + sentence);
    write_error_line(std::string("quern: ") + failure.what());
    return failure.code();
  } catch (const std::bad_alloc&) {
    write_error_line("quern: not enough host memory");
    return exit_does_not_fit;
  } catch (const std::exception& error) {
    write_error_line(std::string("quern: a bug: ") + error.what());
    return exit_bug;
  }
}

}  // namespace
}  // namespace quern::cli

int main(int argc, char** argv) {
  quern::hold_standard_descriptors();
  quern::cli::watch_plugin_calls();
  quern::cli::keep_results_apart();
  return quern::cli::guarded_main({argv + (argc > 0 ? 1 : 0), argv + argc});
}
