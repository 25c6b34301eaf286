// See target.hpp.
#include "worker/target.hpp"

#include "quern/graph/sha256.hpp"
#include "quern/graph/error.hpp"
#include "worker/child_process.hpp"
#include "worker/loader_settings.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace quern::conformance {
namespace {

using nlohmann::json;

void add_targets(const loader::Loader& found, Survey& survey) {
  const loader::Report report = found.report();
  for (const loader::Candidate& c : found.candidates()) {
    if (std::ranges::any_of(survey.targets, [&](const Target& t) { return t.label == c.label; })) continue;
    Target t{c.label, c.plugin_id, c.path, {}, {}, c.device.name, c.device.architecture, c.device.driver_have, c.device.device_class, {}};
    if (const loader::ReportEntry* entry = report.plugin(c.plugin_id)) {
      t.version = entry->version;
      t.build = entry->build;
    }
    survey.targets.push_back(std::move(t));
  }
}

/// Every plugin by itself: one device served by two plugins is tested through both.
void add_each_plugin(const loader::Settings& settings, const loader::Report& report, Survey& survey) {
  for (const loader::ReportEntry& entry : report.entries) {
    bool more = false;
    for (const loader::DeviceReport& device : entry.devices) {
      if (device.code == "QUERN-L-0604") more = true;
      if (device.code == "QUERN-L-0605")
        survey.left_out.push_back(device.label + " (" + device.info.name + "): a software device, tested with --device " + device.label);
    }
    if (!more) continue;
    loader::Settings one = settings;
    one.backends.set({entry.id}, "each plugin");
    add_targets(loader::Loader(one), survey);
  }
}

/// The same of those that were asked for, each of which must be there.
void add_named_plugins(const loader::Settings& settings, Survey& survey) {
  for (const std::string& id : settings.backends.value) {
    loader::Settings one = settings;
    one.backends.set({id}, settings.backends.source);
    const loader::Loader found(one);
    found.require();
    add_targets(found, survey);
  }
}

/// Why a plugin cannot be used, with its file.
std::string refusal_of(const loader::ReportEntry& entry) {
  return entry.cause.find(entry.path) == std::string::npos ? entry.path + ": " + entry.cause : entry.cause;
}

/// Plugins that are there and of which no device is tested, and why: their own words, not a column that is missing without one.
void name_unusable(const loader::Report& report, Survey& survey) {
  for (const loader::ReportEntry& entry : report.entries) {
    if (!entry.path.ends_with(".so") || !entry.devices.empty()) continue;
    if (std::ranges::any_of(survey.targets, [&](const Target& t) { return t.path == entry.path; })) continue;
    survey.left_out.push_back(refusal_of(entry));
  }
}

/// Throws Error(QUERN_UNSUPPORTED) with the loader's words for a file of --plugin that it refused.
void require_plugins(const Selection& selection, const loader::Report& report) {
  for (const std::string& file : selection.plugins)
    for (const loader::ReportEntry& entry : report.entries)
      if (entry.status == loader::Status::refused && entry.path == std::filesystem::absolute(file).lexically_normal())
        throw Error(QUERN_UNSUPPORTED, "--plugin: " + refusal_of(entry) + (entry.remedy.empty() ? "" : "; " + entry.remedy));
}

Survey ask_loader(const Selection& selection) {
  Survey survey;
  const loader::Settings settings = loader_settings(selection);
  const loader::Loader found(settings);
  require_plugins(selection, found.report());
  found.require();
  add_targets(found, survey);
  if (settings.device.is_set()) return survey;
  if (settings.backends.is_set()) {
    if (settings.backends.value.size() > 1) add_named_plugins(settings, survey);
    return survey;
  }
  add_each_plugin(settings, found.report(), survey);
  name_unusable(found.report(), survey);
  return survey;
}

json to_json(const Target& t) {
  return {{"label", t.label},        {"plugin", t.plugin_id},          {"path", t.path},     {"version", t.version},   {"build", t.build},
          {"device", t.device_name}, {"architecture", t.architecture}, {"driver", t.driver}, {"class", t.device_class}};
}

Target target_of(const json& j) {
  return {j.at("label"),  j.at("plugin"),       j.at("path"),   j.at("version"), j.at("build"),
          j.at("device"), j.at("architecture"), j.at("driver"), j.at("class"),   {}};
}

}  // namespace

bool declares_ftz(std::string_view architecture) noexcept {
  for (std::size_t begin = 0; begin < architecture.size();) {
    const std::size_t end = std::min(architecture.find(' ', begin), architecture.size());
    if (architecture.substr(begin, end - begin) == "ftz") return true;
    begin = end + 1;
  }
  return false;
}

int survey_main(const Selection& selection) {
  Survey survey;
  try {
    survey = ask_loader(selection);
  } catch (const Error& error) {
    survey.exit_code = error.code() == QUERN_INVALID_ARGUMENT ? 2 : 3;
    survey.error = error.what();
  } catch (const std::invalid_argument& error) {
    survey.exit_code = 2;
    survey.error = error.what();
  }
  json j{{"exit", survey.exit_code}, {"error", survey.error}, {"left_out", survey.left_out}, {"targets", json::array()}};
  for (const Target& t : survey.targets) j["targets"].push_back(to_json(t));
  const std::string line = j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return ::write(child_replies, line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 70;
}

Survey find_targets(const Selection& selection) {
  std::vector<std::string> arguments{"survey"};
  for (const std::string& a : selection.arguments()) arguments.push_back(a);
  ChildProcess child(arguments, nullptr);
  const ChildProcess::Answer answer = child.receive(120);
  Survey survey;
  if (answer.end != ChildProcess::End::answered) {
    survey.exit_code = 70;
    survey.error = "the search for plugins ended: " + answer.cause;
    return survey;
  }
  const json j = json::parse(answer.line);
  survey.exit_code = j.at("exit");
  survey.error = j.at("error");
  survey.left_out = j.at("left_out").get<std::vector<std::string>>();
  std::map<std::string, std::string> sums;  // a plugin may serve several devices
  for (const json& t : j.at("targets")) {
    survey.targets.push_back(target_of(t));
    const auto [sum, first] = sums.try_emplace(survey.targets.back().path);
    if (first) sum->second = sha256_of_file(sum->first);
    survey.targets.back().sha256 = sum->second;
  }
  return survey;
}

}  // namespace quern::conformance
