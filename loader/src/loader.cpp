// The loader: a survey, a choice, and S4, opening what was chosen.
#include "quern/loader/loader.hpp"

#include "choice.hpp"
#include "demand.hpp"
#include "graphics_cards.hpp"
#include "negotiate.hpp"
#include "plugin_parts.hpp"
#include "quern/graph/error.hpp"
#include "ranking.hpp"
#include "survey.hpp"

#include <algorithm>
#include <mutex>

namespace quern::loader {

struct Loader::State {
  explicit State(Settings given)
      : settings(std::move(given)), facts(own_facts(settings.allow_dev_plugins.value)) {}

  void log(std::uint32_t level, const std::string& text) const {
    if (!settings.log) return;
    try {
      settings.log(level, "loader", text);
    } catch (...) {  // a sink that throws loses its line
    }
  }
  void log(const ReportEntry& entry) const;

  /// S1 and S2 in this process, once a loader for as long as somebody holds the plugin.
  std::shared_ptr<const Plugin> plugin(const Surveyed& surveyed, Verdict& verdict);

  Settings settings;
  HostFacts facts;
  Survey survey;
  std::vector<Candidate> candidates;
  std::string unmet;         // why the demand cannot be met, or empty
  mutable std::mutex mutex;  // of what follows
  Report report;
  std::map<std::string, std::weak_ptr<const Plugin>> plugins;  // by path
};

namespace {

/// Did the file stay what was probed? The same name may hold another plugin by now.
Verdict check_unchanged(const Surveyed& surveyed, const HostFacts& facts) {
  Inspection now;
  Verdict verdict = inspect_file(surveyed.path, facts, now);
  if (!verdict.ok()) return verdict;
  if (now.id == surveyed.found.id && now.version == surveyed.found.version &&
      now.build_id == surveyed.found.build_id)
    return {};
  return {code::plugin_changed,
          concat(surveyed.path, ": the file was replaced after it was probed"),
          "start the program again",
          {}};
}

bool is_same_device(const DeviceInfo& a, const DeviceInfo& b) {
  return a.name == b.name && a.device_class == b.device_class && a.pci_address == b.pci_address &&
         a.uuid == b.uuid;
}

}  // namespace

void Loader::State::log(const ReportEntry& e) const {
  if (!settings.log) return;
  const std::string remedy = e.remedy.empty() ? "" : "; " + e.remedy;
  const std::string text = e.cause.empty() ? e.path : e.cause;
  switch (e.status) {
    case Status::usable:
      log(QUERN_LOG_DEBUG, concat(e.id, " ", e.version, " can be used: ", e.path));
      break;
    case Status::limited:
      for (const Reason& r : e.reasons)
        log(QUERN_LOG_INFO, concat(e.id, ": ", r.text, r.remedy.empty() ? "" : "; ", r.remedy));
      break;
    case Status::skipped:
      log(QUERN_LOG_DEBUG, text + remedy);
      break;
    case Status::refused:
      log(QUERN_LOG_INFO, concat(e.code, ": ", text, remedy));
      break;
    case Status::warning:
      log(QUERN_LOG_WARN, concat(e.code, ": ", text, remedy));
      break;
  }
  if (!e.printed.empty() && !e.from_cache)
    log(QUERN_LOG_DEBUG, concat(e.id, " printed while it was probed: ", e.printed));
}

std::shared_ptr<const Plugin> Loader::State::plugin(const Surveyed& surveyed, Verdict& verdict) {
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Plugin>& kept = plugins[surveyed.path];
  if (auto alive = kept.lock()) return alive;
  std::unique_ptr<Plugin::Parts> parts;
  HostOptions options = host_options(surveyed.found.id, settings);
  if (surveyed.registered) {
    parts = make_plugin(surveyed.path, surveyed.registered, surveyed.found.id, facts, std::move(options),
                        settings.log, verdict);
  } else {
    verdict = check_unchanged(surveyed, facts);
    if (!verdict.ok()) return nullptr;
    parts = load_plugin(surveyed.path, surveyed.found, facts, std::move(options), settings.log, verdict);
  }
  if (!parts) return nullptr;
  // A CPU plugin opens its optional libraries in probe(), and no driver suffers. A GPU plugin opens its
  // driver in device_open: its probe would make a context on every card.
  const bool is_cpu = surveyed.registered || surveyed.found.device_class == QUERN_DEVICE_CPU;
  ProbeAnswer answer;
  if (is_cpu) verdict = run_probe(*parts, surveyed.found.dependencies, answer);
  if (!verdict.ok()) return nullptr;
  parts->build = surveyed.examination.build.empty() ? parts->build : surveyed.examination.build;
  auto made = std::make_shared<const Plugin>(std::move(parts));
  kept = made;
  return made;
}

Loader::Loader(Settings settings) : state_(std::make_unique<State>(std::move(settings))) {
  State& s = *state_;
  const Demand demand(s.settings);
  const std::vector<GraphicsCard> cards = list_graphics_cards(s.settings.sys_root);
  s.survey = survey(s.settings, demand);
  Choice choice = choose(s.settings, demand, s.survey, cards);
  if (const std::vector<std::string> ties = unmeasured_ties(choice.candidates); !ties.empty()) {
    measure(s.settings, ties, s.survey);
    choice = choose(s.settings, demand, s.survey, cards);
  }
  s.unmet = unmet(s.settings, demand, choice, s.survey);
  s.report.directories = s.survey.directories;
  const auto append = [&s](const std::vector<ReportEntry>& entries) {
    s.report.entries.insert(s.report.entries.end(), entries.begin(), entries.end());
  };
  append(choice.entries);
  append(s.survey.notes);
  // With a demand the other cards are not wanted, and saying so would be noise.
  if (!demand.is_made()) append(unused_cards(s.settings, choice, cards));
  s.candidates = s.unmet.empty() ? std::move(choice.candidates) : std::vector<Candidate>();
  for (const ReportEntry& e : s.report.entries) s.log(e);
  // Reported, but not logged: require() says the same as an error.
  if (!s.unmet.empty()) append({system_note(Status::warning, code::demand_unmet, s.unmet, {})});
}

Loader::~Loader() = default;

const Settings& Loader::settings() const noexcept { return state_->settings; }

Report Loader::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->report;
}

const std::vector<Candidate>& Loader::candidates() const noexcept { return state_->candidates; }

const std::vector<Candidate>& Loader::require() const {
  if (!state_->unmet.empty()) throw Error(QUERN_BACKEND_UNAVAILABLE, state_->unmet);
  return state_->candidates;
}

std::shared_ptr<Device> Loader::open(const Candidate& candidate) {
  State& s = *state_;
  const auto surveyed = std::ranges::find_if(
      s.survey.plugins, [&](const Surveyed& p) { return p.path == candidate.path && p.usable(); });
  const bool is_ours = std::ranges::any_of(s.candidates, [&](const Candidate& c) {
    return c.path == candidate.path && c.index == candidate.index;
  });
  if (surveyed == s.survey.plugins.end() || !is_ours)
    throw Error(QUERN_INVALID_ARGUMENT, concat("'", candidate.label, "' is not a candidate of this loader"));

  const auto refuse = [&](Verdict verdict) {
    ReportEntry entry = system_note(Status::refused, code::open_failed, verdict.cause, verdict.remedy);
    if (!verdict.ok()) entry.code = verdict.code;
    entry.path = candidate.path;
    entry.stage = Stage::open;
    entry.id = candidate.plugin_id;
    entry.version = surveyed->found.version;
    entry.raw_error = verdict.raw_error;
    {
      const std::lock_guard lock(s.mutex);
      s.report.entries.push_back(entry);
    }
    return Error(QUERN_BACKEND_UNAVAILABLE, concat(candidate.label, " cannot be opened: ", verdict.cause,
                                                   verdict.remedy.empty() ? "" : "; ", verdict.remedy));
  };
  Verdict verdict;
  const std::shared_ptr<const Plugin> plugin = s.plugin(*surveyed, verdict);
  if (!plugin) throw refuse(std::move(verdict));
  // Made first, so that whatever fails later closes what was opened.
  const std::shared_ptr<Device> device(
      new Device(plugin, nullptr, candidate.device, candidate.label, candidate.index));
  ErrorBuffer error;
  std::string thrown;
  const quern_status status = guarded(
      [&] { return plugin->api().device_open(plugin->handle(), candidate.index, &device->handle_, error.get()); },
      thrown);
  if (status != QUERN_OK || !device->handle_)
    throw refuse({code::open_failed,
                  !thrown.empty() ? "it let an exception out: " + thrown : error.words(status),
                  "run 'quern doctor'", error.text()});
  DeviceInfo info;
  verdict = read_device_info(*plugin->parts_, candidate.index, info);
  if (!verdict.ok()) throw refuse(std::move(verdict));
  if (!is_same_device(info, candidate.device))
    throw refuse({code::plugin_changed,
                  concat("the probe saw '", candidate.device.name, "' here, and now it is '", info.name, "'"),
                  "start the program again",
                  {}});
  return device;
}

std::shared_ptr<Device> Loader::open_best() {
  std::string first_text;
  for (const Candidate& candidate : require()) {
    try {
      return open(candidate);
    } catch (const Error& failed) {
      state_->log(QUERN_LOG_WARN, failed.what());
      if (first_text.empty()) first_text = failed.what();
    }
  }
  throw Error(QUERN_BACKEND_UNAVAILABLE, first_text);
}

std::uint64_t header_hash() { return QUERN_HEADER_HASH; }

}  // namespace quern::loader
