// See options.hpp.
#include "cli/options.hpp"

#include <charconv>
#include <functional>

namespace quern::conformance {

const char* const usage_text =
    R"(usage: quern-conformance VERB [options]

  run       runs the cases on every plugin and device that the loader finds, one column each
  list      prints the names of the cases
  report FILE    the summary of a journal; with --junit and --html those reports of it
  verify FILE    checks a journal against this suite, the plugins, devices and drivers that are here, and the mandatory list
  bench     times cases, each timed result checked; shares of the peaks that it measures itself
  selftest  runs deliberately broken plugins, made of the CPU plugin or of --plugin FILE: each must be found
  kernels   prints which kernels of each plugin a journal's cases reached, and which that its file names they did not

which devices
  --backend ID[,ID]    only these plugins          --device ID:N   only this device (software devices too)
  --plugin FILE        a libbackend_<id>.so that is not installed (repeatable)
  --threads N          of each plugin (its share)  --option K=V    an option for the plugins (repeatable)
which cases
  --profile P          quick (default), full or huge
  --level N            1 copies and matmul, 2 inference, 3 training, 4 all (default)
  --filter GLOB        on case names (repeatable; one that matches nothing is an error)
  --op OP  --dtype D  --group G                    (repeatable)
  --shard I/N          the I-th of N parts
how
  --jobs N             cases at once (default: one a processor)
  --memory MIB         host memory that large cases may take together (default: what there is); without it they are RESOURCE
  --seed N             other random data for every case (default 0)
  --repeat N           each case N times; verdicts that differ are a failure, "flaky"
  --journal FILE       where each result is written (default quern-conformance.jsonl)
  --resume             goes on after what the journal holds
  --junit FILE         JUnit XML            --html FILE    one page that needs nothing else
  --exclusions FILE    lines "never|not_yet GLOB REASON": cases that the backend does not support
  --stop               ends at the first failure   --verbose       every failure, not the first 20
  --json FILE          with bench: every number      --samples N    with bench: timed runs of a case (default 7)
  --deadline SECONDS   of a case, where its own is longer
  --write-manifest F   with list: writes the mandatory list of the profile
  --version            of the suite
with selftest
  --mutant GLOB        only these (repeatable)     --mutants DIR   the folder of libbackend_mutant.so

exit codes: 0 ok, 2 usage or a filter that matches nothing, 3 backend or device unavailable, 7 failures or nothing executed,
70 a fault of the suite
)";

namespace {

std::uint32_t number(const std::string& text, const std::string& flag) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw UsageError(flag + ": '" + text + "' is not a number");
  return value;
}

Profile profile(const std::string& text) {
  for (const Profile p : {Profile::quick, Profile::full, Profile::huge})
    if (text == profile_name(p)) return p;
  throw UsageError("--profile: '" + text + "' is not quick, full or huge");
}

void parse_shard(const std::string& text, Options& o) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) throw UsageError("--shard: '" + text + "' is not I/N");
  o.shard = number(text.substr(0, slash), "--shard");
  o.shards = number(text.substr(slash + 1), "--shard");
  if (o.shard < 1 || o.shard > o.shards) throw UsageError("--shard: " + text + " is not a part of the whole");
}

void parse_option(const std::string& text, Options& o) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) throw UsageError("--option: '" + text + "' is not KEY=VALUE");
  o.selection.plugin_options[text.substr(0, equals)] = text.substr(equals + 1);
}

using Setter = std::function<void(const std::string&)>;

std::map<std::string, Setter> valued_flags(Options& o) {
  return {
      {"--backend", [&](const std::string& v) { o.selection.backend = v; }},
      {"--device", [&](const std::string& v) { o.selection.device = v; }},
      {"--plugin", [&](const std::string& v) { o.selection.plugins.push_back(v); }},
      {"--threads", [&](const std::string& v) { o.selection.threads = number(v, "--threads"); }},
      {"--option", [&](const std::string& v) { parse_option(v, o); }},
      {"--profile", [&](const std::string& v) { o.profile = profile(v); }},
      {"--level",
       [&](const std::string& v) {
         o.level = static_cast<int>(number(v, "--level"));
         if (o.level < level_basic || o.level > level_all) throw UsageError("--level: " + v + " is not 1 to 4");
       }},
      {"--filter", [&](const std::string& v) { o.filters.push_back(v); }},
      {"--dtype", [&](const std::string& v) { o.dtypes.push_back(v); }},
      {"--op", [&](const std::string& v) { o.ops.push_back(v); }},
      {"--group", [&](const std::string& v) { o.groups.push_back(v); }},
      {"--shard", [&](const std::string& v) { parse_shard(v, o); }},
      {"--jobs", [&](const std::string& v) { o.jobs = number(v, "--jobs"); }},
      {"--seed", [&](const std::string& v) { o.seed = number(v, "--seed"); }},
      {"--repeat",
       [&](const std::string& v) {
         o.repeat = number(v, "--repeat");
         if (o.repeat < 1) throw UsageError("--repeat: a case runs at least once");
       }},
      {"--journal", [&](const std::string& v) { o.journal = v; }},
      {"--exclusions", [&](const std::string& v) { o.exclusions = v; }},
      {"--junit", [&](const std::string& v) { o.junit = v; }},
      {"--html", [&](const std::string& v) { o.html = v; }},
      {"--json", [&](const std::string& v) { o.json = v; }},
      {"--samples",
       [&](const std::string& v) {
         o.samples = number(v, "--samples");
         if (o.samples < 3) throw UsageError("--samples: a median needs 3 runs");
       }},
      {"--memory", [&](const std::string& v) { o.memory = std::uint64_t{number(v, "--memory")} << 20; }},
      {"--deadline", [&](const std::string& v) { o.deadline = number(v, "--deadline"); }},
      {"--mutant", [&](const std::string& v) { o.mutant_filters.push_back(v); }},
      {"--mutants", [&](const std::string& v) { o.mutants = v; }},
      {"--write-manifest", [&](const std::string& v) { o.write_manifest = v; }},
  };
}

}  // namespace

std::vector<std::string> Selection::arguments() const {
  std::vector<std::string> list;
  const auto add = [&](const char* flag, const std::string& value) { list.insert(list.end(), {flag, value}); };
  if (!backend.empty()) add("--backend", backend);
  if (!device.empty()) add("--device", device);
  for (const std::string& p : plugins) add("--plugin", p);
  if (threads != 0) add("--threads", std::to_string(threads));
  for (const auto& [key, value] : plugin_options) add("--option", key + "=" + value);
  return list;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  const std::map<std::string, Setter> flags = valued_flags(o);
  const std::map<std::string, bool*> switches = {
      {"--resume", &o.resume}, {"--stop", &o.stop_at_failure}, {"--verbose", &o.verbose}, {"--help", &o.help}, {"-h", &o.help}, {"--version", &o.version}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i], value;
    if (!word.starts_with("-")) {
      if (o.verb.empty()) o.verb = word;
      else if ((o.verb == "device-process" || o.verb == "report" || o.verb == "verify") && o.argument.empty()) o.argument = word;
      else throw UsageError("'" + word + "' is one word too many");
      continue;
    }
    if (const auto flag = switches.find(word); flag != switches.end()) {
      *flag->second = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const bool inside = equals != std::string::npos;
    if (inside) value = word.substr(equals + 1), word = word.substr(0, equals);
    const auto flag = flags.find(word);
    if (flag == flags.end()) throw UsageError("'" + word + "' is no option; --help lists them");
    if (!inside && i + 1 == arguments.size()) throw UsageError(word + " needs a value");
    flag->second(inside ? value : arguments[++i]);
  }
  return o;
}

}  // namespace quern::conformance
