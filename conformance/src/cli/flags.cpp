// See flags.hpp.
#include "cli/flags.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace quern::conformance {
namespace {

std::uint32_t flag_number(const std::string& text, const std::string& flag) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw UsageError(flag + ": '" + text + "' is not a number");
  return value;
}

std::uint32_t flag_number_from(std::uint32_t least, const std::string& text, const std::string& flag, const char* otherwise) {
  const std::uint32_t value = flag_number(text, flag);
  if (value < least) throw UsageError(flag + ": " + otherwise);
  return value;
}

void set_profile(Options& o, const std::string& text) {
  for (const Profile p : {Profile::quick, Profile::full, Profile::huge}) {
    if (text != profile_name(p)) continue;
    o.profile = p;
    return;
  }
  throw UsageError("--profile: '" + text + "' is not quick, full or huge");
}

void set_level(Options& o, const std::string& text) {
  const int level = static_cast<int>(flag_number(text, "--level"));
  if (level < level_basic || level > level_all) throw UsageError("--level: " + text + " is not 1 to 4");
  o.level = level;
}

void set_shard(Options& o, const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) throw UsageError("--shard: '" + text + "' is not I/N");
  o.shard = flag_number(text.substr(0, slash), "--shard");
  o.shards = flag_number(text.substr(slash + 1), "--shard");
  if (o.shard < 1 || o.shard > o.shards) throw UsageError("--shard: " + text + " is not a part of the whole");
}

void set_option(Options& o, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) throw UsageError("--option: '" + text + "' is not KEY=VALUE");
  o.selection.plugin_options[text.substr(0, equals)] = text.substr(equals + 1);
}

constexpr std::string_view section_devices = "which devices", section_cases = "which cases", section_how = "how",
                           section_selftest = "with selftest", section_pages = "pages";
using FlagText = const std::string&;

std::string flag_padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text + "  ";
}

/// Flags that `quern` has too, with the same meaning: the loader reads their variables.
bool is_shared(const Flag& flag) { return flag.name == "--backend" || flag.name == "--device" || flag.name == "--threads"; }

}  // namespace

const std::vector<VerbRow>& verb_table() {
  static const std::vector<VerbRow> table = {
      {"run", "", "runs the cases on every plugin and device that the loader finds, one column each"},
      {"list", "", "prints the names of the cases"},
      {"report", "JOURNAL", "the summary of a journal; with --junit and --html those reports of it"},
      {"verify", "JOURNAL", "checks a journal against this suite, the plugins, devices and drivers that are here, and the mandatory list"},
      {"bench", "", "times cases, each timed result checked; shares of the peaks that it measures itself"},
      {"selftest", "", "runs deliberately broken plugins, made of the CPU plugin or of --plugin FILE: each must be found"},
      {"audit", "", "runs random models in sessions of libquern, in a program of another name: no sign of the suite is left to recognise"},
      {"kernels", "", "prints which kernels of each plugin a journal's cases reached, and which that its file names they did not"},
  };
  return table;
}

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> table = {
      {section_devices, "--backend", "ID[,ID]", "", false, [](Options& o, FlagText v) { o.selection.backend = v; }, "only these plugins"},
      {section_devices, "--device", "ID:N", "", false, [](Options& o, FlagText v) { o.selection.device = v; },
       "only this device (software devices too)"},
      {section_devices, "--plugin", "FILE", "", true, [](Options& o, FlagText v) { o.selection.plugins.push_back(v); },
       "a libbackend_<id>.so that is not installed"},
      {section_devices, "--threads", "N", "", false, [](Options& o, FlagText v) { o.selection.threads = flag_number(v, "--threads"); },
       "of each plugin (default: its share of the processors)"},
      {section_devices, "--option", "KEY=VALUE", "", true, set_option, "an option for the plugins"},
      {section_cases, "--profile", "quick|full|huge", "quick", false, set_profile, "the list of cases"},
      {section_cases, "--level", "1|2|3|4", "4", false, set_level, "1 copies and matmul, 2 inference, 3 training, 4 all"},
      {section_cases, "--filter", "GLOB", "", true, [](Options& o, FlagText v) { o.filters.push_back(v); },
       "on case names; one that matches nothing is an error"},
      {section_cases, "--op", "OP", "", true, [](Options& o, FlagText v) { o.ops.push_back(v); }, "only cases of this op"},
      {section_cases, "--dtype", "D", "", true, [](Options& o, FlagText v) { o.dtypes.push_back(v); }, "only cases with this dtype"},
      {section_cases, "--group", "G", "", true, [](Options& o, FlagText v) { o.groups.push_back(v); }, "only cases of this group"},
      {section_cases, "--shard", "I/N", "", false, set_shard, "the I-th of N parts"},
      {section_how, "--jobs", "N", "", false, [](Options& o, FlagText v) { o.jobs = flag_number(v, "--jobs"); },
       "cases at once (default: one a processor; on a card 6 at most, and one a GiB that it has free)"},
      {section_how, "--memory", "MIB", "", false,
       [](Options& o, FlagText v) { o.memory = std::uint64_t{flag_number(v, "--memory")} << 20; },
       "host memory that large cases may take together (default: what there is); without it they are RESOURCE"},
      {section_how, "--seed", "N", "0", false, [](Options& o, FlagText v) { o.seed = flag_number(v, "--seed"); },
       "other random data for every case; of audit, whose seed is drawn otherwise"},
      {section_how, "--repeat", "N", "1", false,
       [](Options& o, FlagText v) { o.repeat = flag_number_from(1, v, "--repeat", "a case runs at least once"); },
       "each case N times; verdicts that differ are a failure, \"flaky\""},
      {section_how, "--journal", "FILE", "quern-conformance.jsonl", false, [](Options& o, FlagText v) { o.journal = v; },
       "where each result is written"},
      {section_how, "--resume", "", "", false, [](Options& o, FlagText) { o.resume = true; }, "goes on after what the journal holds"},
      {section_how, "--junit", "FILE", "", false, [](Options& o, FlagText v) { o.junit = v; }, "JUnit XML"},
      {section_how, "--html", "FILE", "", false, [](Options& o, FlagText v) { o.html = v; }, "one page that needs nothing else"},
      {section_how, "--exclusions", "FILE", "", false, [](Options& o, FlagText v) { o.exclusions = v; },
       "lines \"never|not_yet GLOB REASON\": cases that the backend does not support"},
      {section_how, "--stop", "", "", false, [](Options& o, FlagText) { o.stop_at_failure = true; }, "ends at the first failure"},
      {section_how, "--verbose", "", "", false, [](Options& o, FlagText) { o.verbose = true; }, "every failure, not the first 20"},
      {section_how, "--json", "FILE", "", false, [](Options& o, FlagText v) { o.json = v; },
       "with bench: every number; with list: each case with its shapes, one JSON object a line"},
      {section_how, "--samples", "N", "7", false,
       [](Options& o, FlagText v) { o.samples = flag_number_from(3, v, "--samples", "a median needs 3 runs"); },
       "with bench: timed runs of a case"},
      {section_how, "--models", "N", "6", false,
       [](Options& o, FlagText v) { o.models = flag_number_from(1, v, "--models", "an audit runs at least one"); },
       "with audit: random models on each device"},
      {section_how, "--deadline", "SECONDS", "", false, [](Options& o, FlagText v) { o.deadline = flag_number(v, "--deadline"); },
       "of a case, where its own is longer"},
      {section_how, "--write-manifest", "FILE", "", false, [](Options& o, FlagText v) { o.write_manifest = v; },
       "with list: writes counts and hashes of the mandatory list"},
      {section_how, "--print-bound", "CASE", "", false, [](Options& o, FlagText v) { o.print_bound = v; },
       "with list: what the case allows, and where that is derived"},
      {section_selftest, "--mutant", "GLOB", "", true, [](Options& o, FlagText v) { o.mutant_filters.push_back(v); }, "only these"},
      {section_selftest, "--mutants", "FOLDER", "", false, [](Options& o, FlagText v) { o.mutants = v; },
       "the folder of libbackend_mutant.so (default: where it is installed)"},
      {section_pages, "--show-config", "", "", false, [](Options& o, FlagText) { o.show_config = true; },
       "each flag's value and where it comes from, and no run"},
      {section_pages, "--version", "", "", false, [](Options& o, FlagText) { o.version = true; }, "of the suite"},
      {section_pages, "--help", "", "", false, [](Options& o, FlagText) { o.help = true; }, "this page; also -h"},
  };
  return table;
}

std::string variable_of(const Flag& flag) {
  if (flag.section == section_pages) return "";
  std::string name(flag.name.substr(2));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return (is_shared(flag) ? "QUERN_" : "QUERN_CONFORMANCE_") + name;
}

std::string usage_text() {
  std::string text = "usage: quern-conformance VERB [options]\n\n";
  for (const VerbRow& verb : verb_table())
    text += "  " + flag_padded(std::string(verb.name) + (verb.argument.empty() ? "" : " " + std::string(verb.argument)), 15) +
            std::string(verb.help) + "\n";
  std::string_view section;
  for (const Flag& flag : flag_table()) {
    if (flag.section != section) text += "\n" + std::string(section = flag.section) + "\n";
    text +=
        "  " + flag_padded(std::string(flag.name) + (flag.value.empty() ? "" : " " + std::string(flag.value)), 26) + std::string(flag.help);
    if (!flag.standard.empty()) text += " (default " + std::string(flag.standard) + ")";
    text += flag.repeatable ? " (repeatable)\n" : "\n";
  }
  return text + R"(
Every flag has a variable: --jobs is QUERN_CONFORMANCE_JOBS; --backend, --device and --threads are QUERN_BACKEND, QUERN_DEVICE and
QUERN_THREADS, as for quern. A flag is stronger than its variable.

exit codes: 0 ok, 2 usage, a filter that matches nothing or a file that cannot be read or written, 3 backend or device unavailable,
7 failures or nothing executed, 70 a fault of the suite
)";
}

std::string config_page(const Options& options) {
  std::string page;
  for (const Flag& flag : flag_table()) {
    const std::string variable = variable_of(flag);
    if (variable.empty()) continue;
    const auto given = options.given.find(std::string(flag.name));
    const bool standard = given == options.given.end();
    std::string value = standard ? std::string(flag.standard) : given->second.value;
    if (flag.value.empty()) value = standard || given->second.value == "0" ? "off" : "on";
    page += flag_padded(std::string(flag.name), 16) + flag_padded(value, 23) +
            (standard                 ? "default"
             : given->second.variable ? "environment " + variable
                                      : "flag") +
            "\n";
  }
  return page;
}

}  // namespace quern::conformance
