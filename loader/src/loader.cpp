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
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

namespace quern::loader {

struct Loader::State {
  explicit State(Settings given) : settings(std::move(given)), facts(own_facts(settings.allow_dev_plugins.value)), demand(settings) {}

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

  /// A new handle of a plugin. Null with a verdict.
  std::shared_ptr<const Plugin> make_handle(const Surveyed& surveyed, HostOptions options, Verdict& verdict) const;

  /// Ranks what the survey found and writes the report anew; what open() reported stays in it. Gives the entries that are new, to be logged
  /// without the mutex: a sink may call the loader.
  std::vector<ReportEntry> decide();

  /// The plugin of a candidate, as it was surveyed last. Throws Error(QUERN_INVALID_ARGUMENT) for a stranger.
  Surveyed surveyed_of(const Candidate& candidate) const;

  /// What stands now at a candidate's place. Nothing if it is no candidate any more.
  std::optional<Candidate> candidate_at(const std::string& path, std::uint32_t index) const;

  /// One attempt. Null with a verdict.
  std::shared_ptr<Device> try_open(const Surveyed& surveyed, const Candidate& candidate, Verdict& verdict);

  /// Opens it by this handle. `exact`: it has to be what the candidate says in every field; else it has to be that device. Null with a verdict.
  static std::shared_ptr<Device> open_by(const std::shared_ptr<const Plugin>& owner, const Candidate& candidate, bool exact,
                                         Verdict& verdict);

  /// Puts a failure to open into the report, and throws it.
  [[noreturn]] void fail_to_open(const Candidate& candidate, const Surveyed& surveyed, const Verdict& verdict);

  /// Probes a plugin anew, because what was kept of its probe was wrong, and decides anew.
  void probe_anew(const std::string& path, const std::string& why);

  /// The device describes itself otherwise than the helper was told a moment ago: what the device says counts, and is kept.
  void correct(const std::string& path, std::uint32_t index, const DeviceInfo& info);

  Settings settings;
  HostFacts facts;
  Demand demand;

  mutable std::mutex mutex;  // of what follows
  Survey survey;
  std::deque<std::vector<Candidate>> choices;  // the last one counts; callers may still read the others
  std::string unmet;                           // why the demand cannot be met, or empty
  std::vector<ReportEntry> failures;           // of open()
  Report report;
  std::map<std::string, std::weak_ptr<const Plugin>> plugins;  // by path
};

namespace {

/// Did the file stay what was probed? The same name may hold another plugin by now.
Verdict check_unchanged(const Surveyed& surveyed, const HostFacts& facts) {
  Inspection now;
  Verdict verdict = inspect_file(surveyed.path, facts, now);
  if (!verdict.ok()) return verdict;
  if (now.id == surveyed.found.id && now.version == surveyed.found.version && now.build_id == surveyed.found.build_id) return {};
  return {code::plugin_changed, concat(surveyed.path, ": the file was replaced after it was probed"), "start the program again", {}};
}

bool is_same_device(const DeviceInfo& a, const DeviceInfo& b) {
  return a.name == b.name && a.device_class == b.device_class && a.pci_address == b.pci_address && a.uuid == b.uuid;
}

/// The first field in which a kept description differs from the device's own, in words.
std::string difference(const DeviceInfo& kept, const DeviceInfo& now) {
  const auto words = [](const char* field, const auto& before, const auto& after) {
    return concat("the probe saw ", field, " '", before, "' here, and now it is '", after, "'");
  };
  if (kept.name != now.name) return words("the name", kept.name, now.name);
  if (kept.device_class != now.device_class) return words("the class", class_name(kept.device_class), class_name(now.device_class));
  if (kept.caps != now.caps) return words("the abilities", kept.caps, now.caps);
  if (kept.architecture != now.architecture) return words("the architecture", kept.architecture, now.architecture);
  if (kept.pci_address != now.pci_address) return words("the address", kept.pci_address, now.pci_address);
  if (kept.uuid != now.uuid) return words("the UUID", uuid_text(kept.uuid), uuid_text(now.uuid));
  if (kept.vendor_id != now.vendor_id) return words("the vendor", kept.vendor_id, now.vendor_id);
  if (kept.driver_have != now.driver_have) return words("the driver", kept.driver_have, now.driver_have);
  if (kept.driver_need != now.driver_need) return words("the needed driver", kept.driver_need, now.driver_need);
  if (kept.memory_alignment != now.memory_alignment) return words("an alignment of", kept.memory_alignment, now.memory_alignment);
  if (kept.max_allocation != now.max_allocation) return words("a largest allocation of", kept.max_allocation, now.max_allocation);
  if (kept.heap_count != now.heap_count) return words("the number of heaps", kept.heap_count, now.heap_count);
  return words("the memory node", kept.numa_node, now.numa_node);
}

}  // namespace

void Loader::State::log(const ReportEntry& e) const {
  if (!settings.log) return;
  const std::string remedy = e.remedy.empty() ? "" : "; " + e.remedy;
  const std::string text = e.cause.empty() ? e.path : e.cause;
  switch (e.status) {
    case Status::usable: log(QUERN_LOG_DEBUG, concat(e.id, " ", e.version, " can be used: ", e.path)); break;
    case Status::limited:
      for (const Reason& r : e.reasons) log(QUERN_LOG_INFO, concat(e.id, ": ", r.text, r.remedy.empty() ? "" : "; ", r.remedy));
      break;
    case Status::skipped: log(QUERN_LOG_DEBUG, text + remedy); break;
    case Status::refused: log(QUERN_LOG_INFO, concat(e.code, ": ", text, remedy)); break;
    case Status::warning: log(QUERN_LOG_WARN, concat(e.code, ": ", text, remedy)); break;
  }
  if (!e.printed.empty() && !e.from_cache) log(QUERN_LOG_DEBUG, concat(e.id, " printed while it was probed: ", e.printed));
}

std::shared_ptr<const Plugin> Loader::State::plugin(const Surveyed& surveyed, Verdict& verdict) {
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Plugin>& kept = plugins[surveyed.path];
  if (auto alive = kept.lock()) return alive;
  const std::shared_ptr<const Plugin> made = make_handle(surveyed, host_options(surveyed.found.id, settings), verdict);
  kept = made;
  return made;
}

std::shared_ptr<const Plugin> Loader::State::make_handle(const Surveyed& surveyed, HostOptions options, Verdict& verdict) const {
  std::unique_ptr<Plugin::Parts> parts;
  CallTexts texts = texts_of_plugin(surveyed.found.id, surveyed.path);
  if (!surveyed.registered) {
    texts.fault_file = ProbeCache(settings.cache_directory.value).fault_file(surveyed.path);
    texts.identity = file_identity(surveyed.path);
  }
  const CallTarget& target = call_target(texts);
  if (surveyed.fault && surveyed.fault->device.empty()) suspect_call(target, surveyed.fault->call);
  if (surveyed.registered) {
    parts = make_plugin(surveyed.path, target, surveyed.registered, surveyed.found.id, facts, std::move(options), settings.log, verdict);
  } else {
    verdict = check_unchanged(surveyed, facts);
    if (!verdict.ok()) return nullptr;
    parts = load_plugin(surveyed.path, target, surveyed.found, facts, std::move(options), settings.log, verdict);
  }
  if (!parts) return nullptr;
  parts->kept_fault = surveyed.fault;
  // A CPU plugin opens its optional libraries in probe(), and no driver suffers. A GPU plugin opens its
  // driver in device_open: its probe would make a context on every card.
  const bool is_cpu = surveyed.registered || surveyed.found.device_class == QUERN_DEVICE_CPU;
  ProbeAnswer answer;
  if (is_cpu) verdict = run_probe(*parts, surveyed.found.dependencies, answer);
  if (!verdict.ok()) return nullptr;
  if (parts->build.empty()) parts->build = surveyed.examination.build;
  return std::make_shared<const Plugin>(std::move(parts));
}

std::vector<ReportEntry> Loader::State::decide() {
  const std::vector<GraphicsCard> cards = list_graphics_cards(settings.sys_root);
  Choice choice = choose(settings, demand, survey, cards);
  if (const std::vector<std::string> ties = unmeasured_ties(choice.candidates); !ties.empty()) {
    measure(settings, ties, survey);
    choice = choose(settings, demand, survey, cards);
  }
  unmet = loader::unmet(settings, demand, choice, survey);
  const Report before = std::exchange(report, {});
  report.directories = survey.directories;
  const auto append = [this](const std::vector<ReportEntry>& entries) {
    report.entries.insert(report.entries.end(), entries.begin(), entries.end());
  };
  append(choice.entries);
  append(choice.notes);
  append(survey.notes);
  if (unmet.empty()) append(passed_over(demand, choice, survey));
  // With a demand the other cards are not wanted, and saying so would be noise.
  if (!demand.is_made()) append(unused_cards(settings, choice, cards));
  choices.push_back(unmet.empty() ? std::move(choice.candidates) : std::vector<Candidate>());
  const auto is_news = [&before](const ReportEntry& e) {
    return std::ranges::none_of(before.entries,
                                [&e](const ReportEntry& old) { return old.path == e.path && old.code == e.code && old.cause == e.cause; });
  };
  std::vector<ReportEntry> news;
  std::ranges::copy_if(report.entries, std::back_inserter(news), is_news);
  // Reported, but not logged: require() says the same as an error.
  if (!unmet.empty()) append({system_note(Status::warning, code::demand_unmet, unmet, {})});
  append(failures);
  return news;
}

Surveyed Loader::State::surveyed_of(const Candidate& candidate) const {
  const std::lock_guard lock(mutex);
  const auto surveyed = std::ranges::find_if(survey.plugins, [&](const Surveyed& p) { return p.path == candidate.path && p.usable(); });
  const bool is_ours = std::ranges::any_of(choices, [&](const std::vector<Candidate>& choice) {
    return std::ranges::any_of(choice, [&](const Candidate& c) { return c.path == candidate.path && c.index == candidate.index; });
  });
  if (surveyed == survey.plugins.end() || !is_ours)
    throw Error(QUERN_INVALID_ARGUMENT, concat("'", candidate.label, "' is not a candidate of this loader"));
  return *surveyed;
}

std::optional<Candidate> Loader::State::candidate_at(const std::string& path, std::uint32_t index) const {
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(choices.back(), [&](const Candidate& c) { return c.path == path && c.index == index; });
  return found == choices.back().end() ? std::nullopt : std::optional(*found);
}

void Loader::State::probe_anew(const std::string& path, const std::string& why) {
  const auto find = [&] { return std::ranges::find(survey.plugins, path, &Surveyed::path); };
  Surveyed again;
  {
    const std::lock_guard lock(mutex);
    again = *find();
  }
  if (!again.from_cache) return;  // another thread has just done it
  log(QUERN_LOG_INFO, concat(again.found.id, ": ", why, "; what was kept of its probe is thrown away, and it is probed anew"));
  if (!again.registered) again.verdict = inspect_file(path, facts, again.found);
  std::vector<ReportEntry> notes, news;
  again.from_cache = false;
  if (again.verdict.ok()) probe_again(settings, again, notes);
  {
    const std::lock_guard lock(mutex);
    *find() = std::move(again);
    survey.notes.insert(survey.notes.end(), notes.begin(), notes.end());
    news = decide();
  }
  for (const ReportEntry& e : news) log(e);
}

void Loader::State::correct(const std::string& path, std::uint32_t index, const DeviceInfo& info) {
  Surveyed corrected;
  std::string words;
  {
    const std::lock_guard lock(mutex);
    const auto surveyed = std::ranges::find(survey.plugins, path, &Surveyed::path);
    if (surveyed == survey.plugins.end() || index >= surveyed->examination.devices.size()) return;
    DeviceInfo& kept = surveyed->examination.devices[index].info;
    if (kept == info) return;
    words = difference(kept, info);
    kept = info;
    corrected = *surveyed;
  }
  log(QUERN_LOG_DEBUG, concat(corrected.found.id, ":", index, ": ", words));
  if (!corrected.in_process) keep_again(settings, corrected);
}

Loader::Loader(Settings settings) : state_(std::make_unique<State>(std::move(settings))) {
  State& s = *state_;
  s.survey = survey(s.settings, s.demand);
  for (const ReportEntry& e : s.decide()) s.log(e);
}

Loader::~Loader() = default;

const Settings& Loader::settings() const noexcept { return state_->settings; }

Report Loader::report() const {
  const std::lock_guard lock(state_->mutex);
  return state_->report;
}

const std::vector<Candidate>& Loader::candidates() const {
  const std::lock_guard lock(state_->mutex);
  return state_->choices.back();
}

const std::vector<Candidate>& Loader::require() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->unmet.empty()) throw Error(QUERN_BACKEND_UNAVAILABLE, state_->unmet);
  return state_->choices.back();
}

std::shared_ptr<Device> Loader::State::open_by(const std::shared_ptr<const Plugin>& owner, const Candidate& candidate, bool exact,
                                               Verdict& verdict) {
  // Made first, so that whatever fails later closes what was opened.
  std::shared_ptr<Device> device(new Device(owner, nullptr, candidate.device, candidate.label, candidate.index));
  ErrorBuffer error;
  const quern_status status = device->call<&quern_plugin_api::device_open>(owner->handle(), candidate.index, &device->handle_, error.get());
  if (status != QUERN_OK || !device->handle_) {
    verdict = {code::open_failed, error.words(status), "run 'quern doctor'", error.text()};
    return nullptr;
  }
  DeviceInfo info;
  verdict = read_device_info(*owner->parts_, candidate.index, info);
  if (!verdict.ok()) return nullptr;
  if (exact ? info != candidate.device : !is_same_device(info, candidate.device)) {
    verdict = {code::plugin_changed, difference(candidate.device, info), "start the program again", {}};
    return nullptr;
  }
  device->info_ = std::move(info);
  return device;
}

std::shared_ptr<Device> Loader::State::try_open(const Surveyed& surveyed, const Candidate& candidate, Verdict& verdict) {
  const std::shared_ptr<const Plugin> owner = plugin(surveyed, verdict);
  if (!owner) return nullptr;
  // What was kept has to be right in all that it says; a fresh probe, in what tells one device from another.
  std::shared_ptr<Device> device = open_by(owner, candidate, surveyed.from_cache, verdict);
  if (device) correct(surveyed.path, candidate.index, device->info());
  return device;
}

void Loader::State::fail_to_open(const Candidate& candidate, const Surveyed& surveyed, const Verdict& verdict) {
  ReportEntry entry = system_note(Status::refused, code::open_failed, verdict.cause, verdict.remedy);
  if (!verdict.ok()) entry.code = verdict.code;
  entry.path = candidate.path;
  entry.stage = Stage::open;
  entry.id = candidate.plugin_id;
  entry.version = surveyed.found.version;
  entry.raw_error = verdict.raw_error;
  {
    const std::lock_guard lock(mutex);
    failures.push_back(entry);
    report.entries.push_back(std::move(entry));
  }
  throw Error(QUERN_BACKEND_UNAVAILABLE,
              concat(candidate.label, " cannot be opened: ", verdict.cause, verdict.remedy.empty() ? "" : "; ", verdict.remedy));
}

std::shared_ptr<Device> Loader::open(const Candidate& candidate, const std::map<std::string, std::string>& options) {
  const State& s = *state_;
  const Surveyed surveyed = s.surveyed_of(candidate);
  HostOptions all = host_options(surveyed.found.id, s.settings);
  for (const auto& [key, value] : options) all.options.insert_or_assign(key, value);
  Verdict verdict;
  std::shared_ptr<Device> device;
  if (const std::shared_ptr<const Plugin> owner = s.make_handle(surveyed, std::move(all), verdict))
    device = State::open_by(owner, candidate, false, verdict);
  if (!device) state_->fail_to_open(candidate, surveyed, verdict);
  return device;
}

std::shared_ptr<Device> Loader::open(const Candidate& given) {
  State& s = *state_;
  Surveyed surveyed = s.surveyed_of(given);
  std::optional<Candidate> candidate = s.candidate_at(given.path, given.index);
  Verdict verdict;
  std::shared_ptr<Device> device = candidate ? s.try_open(surveyed, *candidate, verdict) : nullptr;
  if (!device && surveyed.from_cache) {
    s.probe_anew(given.path, verdict.cause);
    candidate = s.candidate_at(given.path, given.index);
    verdict = {};
    if (candidate) {
      surveyed = s.surveyed_of(*candidate);
      device = s.try_open(surveyed, *candidate, verdict);
    }
  }
  if (device) return device;
  if (!candidate) {
    verdict = {code::plugin_changed, "the device was probed anew, and is not one that may be used", "run 'quern doctor'", {}};
  }
  s.fail_to_open(given, surveyed, verdict);
}

std::shared_ptr<Device> Loader::open_best() {
  for (;;) {
    const std::vector<Candidate>& candidates = require();
    std::string first_text;
    std::shared_ptr<Device> opened;
    for (const Candidate& candidate : candidates) {
      try {
        opened = open(candidate);
        break;
      } catch (const Error& failed) {
        state_->log(QUERN_LOG_WARN, failed.what());
        if (first_text.empty()) first_text = failed.what();
      }
    }
    if (&require() != &candidates) continue;  // a kept probe was wrong, and what is best was decided anew
    if (!opened) throw Error(QUERN_BACKEND_UNAVAILABLE, first_text);
    return opened;
  }
}

std::uint64_t header_hash() { return QUERN_HEADER_HASH; }

}  // namespace quern::loader
