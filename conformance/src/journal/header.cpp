// See header.hpp.
#include "journal/header.hpp"

#include "quern/graph/sha256.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

extern char** environ;

namespace quern::conformance {
namespace {

using nlohmann::json;

/// QUERN_... variables, without those that only say where files lie (a plugin is named by its hash), and without those of the suite's own
/// options, which the header has in their own places.
std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with("QUERN_")) continue;
    const std::string name(text.substr(0, equals));
    if (name != "QUERN_BACKEND_PATH" && name != "QUERN_TEST_MODEL" && !name.starts_with("QUERN_CONFORMANCE_"))
      found[name] = text.substr(equals + 1);
  }
  return found;
}

json target_json(const Target& t) {
  return {{"label", t.label},   {"plugin", t.plugin_id},  {"path", t.path},          {"version", t.version},
          {"build", t.build},   {"sha256", t.sha256},     {"device", t.device_name}, {"architecture", t.architecture},
          {"driver", t.driver}, {"class", t.device_class}};
}

Target target_of(const json& j) {
  Target t;
  t.label = j.at("label");
  t.plugin_id = j.at("plugin");
  t.path = j.at("path");
  t.version = j.at("version");
  t.build = j.at("build");
  t.sha256 = j.at("sha256");
  t.device_name = j.at("device");
  t.architecture = j.at("architecture");
  t.driver = j.at("driver");
  t.device_class = j.at("class");
  return t;
}

std::string shown(const std::string& text) { return text.empty() ? "nothing" : text; }
std::string shown(std::uint64_t number) { return std::to_string(number); }
std::string shown(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text += (text.empty() ? "" : " ") + key + "=" + value;
  return shown(text);
}

class Differences {
 public:
  template <class T>
  void compare(const std::string& what, const T& now, const T& written) {
    if (now != written) found_.push_back(what + " is " + shown(now) + ", the journal says " + shown(written));
  }
  void add(std::string text) { found_.push_back(std::move(text)); }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void compare_targets(const std::vector<Target>& now, const std::vector<Target>& written, Differences& d) {
  const auto find = [](const std::vector<Target>& list, const std::string& label) {
    return std::ranges::find_if(list, [&](const Target& t) { return t.label == label; });
  };
  for (const Target& w : written) {
    const auto n = find(now, w.label);
    if (n == now.end()) {
      d.add("the journal has the device " + w.label + " (" + w.device_name + "), which is not here");
      continue;
    }
    d.compare("the plugin of " + w.label, n->plugin_id + " " + n->version, w.plugin_id + " " + w.version);
    d.compare("the SHA-256 of the plugin of " + w.label, n->sha256, w.sha256);
    d.compare("the build of the plugin of " + w.label, n->build, w.build);
    d.compare("the device " + w.label, n->device_name, w.device_name);
    d.compare("the architecture of " + w.label, n->architecture, w.architecture);
    d.compare("the driver of " + w.label, n->driver, w.driver);
  }
  for (const Target& n : now)
    if (find(written, n.label) == written.end()) d.add("the device " + n.label + " (" + n.device_name + ") is not in the journal");
}

}  // namespace

Header make_header(const Options& options, std::vector<std::string> names, const std::string& manifest, std::vector<Target> targets) {
  Header h;
  h.suite = QUERN_SUITE_VERSION;
  h.build = sha256_of_file("/proc/self/exe");
  h.profile = profile_name(options.profile);
  h.manifest = manifest;
  std::ranges::sort(names);
  std::string lines;
  for (const std::string& name : names) lines += name + "\n";
  h.selection = sha256_of(lines);
  h.cases = names.size();
  h.seed = options.seed;
  h.repeat = options.repeat;
  h.threads = options.selection.threads;
  h.options = options.selection.plugin_options;
  h.environment = own_environment();
  h.targets = std::move(targets);
  return h;
}

std::string header_line(const Header& h) {
  json targets = json::array();
  for (const Target& t : h.targets) targets.push_back(target_json(t));
  const json j{{"suite", h.suite},
               {"build", h.build},
               {"profile", h.profile},
               {"manifest", h.manifest},
               {"selection", h.selection},
               {"cases", h.cases},
               {"seed", h.seed},
               {"repeat", h.repeat},
               {"threads", h.threads},
               {"options", h.options},
               {"environment", h.environment},
               {"targets", targets}};
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Header parse_header(const std::string& line, const std::string& file) {
  try {
    const json j = json::parse(line);
    Header h;
    h.suite = j.at("suite");
    h.build = j.at("build");
    h.profile = j.at("profile");
    h.manifest = j.at("manifest");
    h.selection = j.at("selection");
    h.cases = j.at("cases");
    h.seed = j.at("seed");
    h.repeat = j.at("repeat");
    h.threads = j.at("threads");
    h.options = j.at("options");
    h.environment = j.at("environment");
    for (const json& t : j.at("targets")) h.targets.push_back(target_of(t));
    return h;
  } catch (const json::exception&) { throw UsageError(file + ": its first line is not the header of a journal of this suite"); }
}

std::vector<std::string> header_differences(const Header& now, const Header& written) {
  Differences d;
  d.compare("the suite's version", now.suite, written.suite);
  d.compare("the suite's build", now.build, written.build);
  d.compare("the profile", now.profile, written.profile);
  d.compare("the manifest", now.manifest, written.manifest);
  d.compare("the number of cases", now.cases, written.cases);
  d.compare("the selection of cases", now.selection, written.selection);
  d.compare("the seed", now.seed, written.seed);
  d.compare("--repeat", std::uint64_t{now.repeat}, std::uint64_t{written.repeat});
  d.compare("--threads", std::uint64_t{now.threads}, std::uint64_t{written.threads});
  d.compare("the plugins' options", now.options, written.options);
  d.compare("the environment", now.environment, written.environment);
  compare_targets(now.targets, written.targets, d);
  return d.take();
}

}  // namespace quern::conformance
