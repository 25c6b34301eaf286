// From proven devices to candidates, with a word for each device that is none.
#include "choice.hpp"

#include "quern/base/nearest.hpp"
#include "quern/graph/error.hpp"
#include "ranking.hpp"
#include "visibility.hpp"

#include <algorithm>
#include <set>

namespace quern::loader {
namespace {

std::string label_of(const std::string& id, std::size_t index) { return concat(id, ":", index); }

ReportEntry entry_of(const Surveyed& p) {
  ReportEntry e;
  e.path = p.path;
  e.stage = p.stage;
  e.status = p.skipped ? Status::skipped : p.usable() ? Status::usable : Status::refused;
  e.code = p.verdict.code;
  e.cause = p.verdict.cause;
  e.remedy = p.verdict.remedy;
  e.raw_error = p.verdict.raw_error;
  e.id = p.found.id;
  e.version = p.found.version;
  e.build = p.examination.build.empty() ? p.found.build_id : p.examination.build;
  e.abi_minor = p.examination.abi_minor;
  e.from_cache = p.from_cache;
  e.in_process = p.in_process;
  e.milliseconds = p.milliseconds;
  e.printed = p.examination.printed;
  e.reasons = p.examination.reasons;
  if (e.status == Status::usable && !e.reasons.empty()) e.status = Status::limited;
  for (std::size_t i = 0; i < p.examination.devices.size(); ++i) {
    const ProbedDevice& probed = p.examination.devices[i];
    DeviceReport d;
    d.label = label_of(e.id, i);
    d.info = probed.info;
    d.bandwidth = probed.bandwidth;
    d.status = probed.verdict.ok() ? Status::usable : Status::refused;
    d.code = probed.verdict.code;
    d.reason = probed.verdict.cause;
    d.remedy = probed.verdict.remedy;
    e.devices.push_back(std::move(d));
  }
  return e;
}

/// Marks a device that could be used and is not.
void skip(std::vector<ReportEntry>& entries, const Dropped& dropped) {
  for (ReportEntry& e : entries)
    for (DeviceReport& d : e.devices)
      if (e.path == dropped.candidate.path && d.label == dropped.candidate.label) {
        d.status = Status::skipped;
        d.code = dropped.code;
        d.reason = dropped.reason;
        d.remedy = dropped.remedy;
      }
}

std::vector<Candidate> usable_devices(const Survey& survey) {
  std::vector<Candidate> all;
  for (const Surveyed& p : survey.plugins) {
    if (!p.usable()) continue;
    for (std::size_t i = 0; i < p.examination.devices.size(); ++i)
      if (const ProbedDevice& d = p.examination.devices[i]; d.verdict.ok())
        all.push_back({p.found.id, p.path, static_cast<std::uint32_t>(i), label_of(p.found.id, i), d.info, d.bandwidth});
  }
  return all;
}

/// What the cuda plugin lists, whether usable or not; nothing if it could not list.
std::vector<Candidate> listed_by_cuda(const Survey& survey) {
  std::vector<Candidate> listed;
  for (const Surveyed& p : survey.plugins)
    if (p.found.id == "cuda" && p.usable())
      for (std::size_t i = 0; i < p.examination.devices.size(); ++i)
        listed.push_back({p.found.id, p.path, static_cast<std::uint32_t>(i), label_of(p.found.id, i), p.examination.devices[i].info, 0});
  return listed;
}

CudaVisibility visibility(const Settings& settings, const Survey& survey, const std::vector<GraphicsCard>& cards) {
  const std::vector<Candidate> cuda = listed_by_cuda(survey);
  return CudaVisibility(settings.cuda_visible_devices, cuda.empty() ? nullptr : &cuda, cards);
}

/// Keeps the named device, and of the other plugins what the user lists beside it.
std::vector<Candidate> keep_named(std::vector<Candidate> all, const Demand& demand, const std::string& words,
                                  std::vector<Dropped>& dropped) {
  if (!demand.device()) return all;
  const auto is_named = [&](const Candidate& c) { return demand.device()->matches(c.plugin_id, c.index, c.device); };
  std::set<std::string> plugins;  // that see the named device
  for (const Candidate& named : all)
    if (is_named(named))
      for (const Candidate& c : all)
        if (&c == &named || same_physical_device(c, named)) plugins.insert(c.plugin_id);
  std::vector<Candidate> kept;
  for (Candidate& c : all)
    if (is_named(c) || (demand.lists_backends() && !plugins.contains(c.plugin_id))) kept.push_back(std::move(c));
    else dropped.push_back({std::move(c), code::device_not_named, concat(words, " names another device"), {}});
  return kept;
}

std::string named_label(const Demand& demand, const std::vector<Candidate>& kept) {
  if (demand.device())
    for (const Candidate& c : kept)
      if (demand.device()->matches(c.plugin_id, c.index, c.device) &&
          (!demand.device()->plugin_id.empty() || c.device.device_class == QUERN_DEVICE_SOFTWARE))
        return c.label;
  return {};
}

std::vector<std::string> plugins_behind(const Survey& survey) {
  std::vector<std::string> ids;
  for (const Surveyed& p : survey.plugins)
    if (p.usable() && p.fault && p.fault->ended_the_program()) ids.push_back(p.found.id);
  return ids;
}

/// What an earlier program met in a plugin that may be used.
std::vector<ReportEntry> faults_of(const Demand& demand, const Survey& survey) {
  std::vector<ReportEntry> notes;
  for (const Surveyed& p : survey.plugins) {
    if (!p.usable() || !p.fault) continue;
    const bool behind = p.fault->ended_the_program() && !demand.is_made();
    ReportEntry note = system_note(
        Status::warning, code::plugin_faulted,
        concat(p.path, ": ", p.fault->words(p.found.id), " in an earlier run", behind ? "; it comes behind all other devices" : ""),
        concat("install another version of the plugin, or leave it out; QUERN_BACKEND=", p.found.id, " tries it again"));
    note.path = p.path;
    note.words["id"] = p.found.id;
    notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace

Choice choose(const Settings& settings, const Demand& demand, const Survey& survey, const std::vector<GraphicsCard>& cards) {
  Choice choice;
  for (const Surveyed& p : survey.plugins) choice.entries.push_back(entry_of(p));
  std::vector<Dropped> dropped;
  const CudaVisibility visible = visibility(settings, survey, cards);
  std::vector<Candidate> seen;
  for (Candidate& c : usable_devices(survey))
    if (const auto why = visible.hides(c))
      dropped.push_back({std::move(c), code::device_hidden, *why, concat("change ", settings.cuda_visible_devices.source)});
    else seen.push_back(std::move(c));
  std::vector<Candidate> kept = keep_named(std::move(seen), demand, demand.words(), dropped);
  const RankRules rules{demand.ids(), named_label(demand, kept), demand.is_made() ? std::vector<std::string>() : plugins_behind(survey)};
  Ranking ranking = rank(std::move(kept), rules);
  std::ranges::move(ranking.dropped, std::back_inserter(dropped));
  choice.candidates = std::move(ranking.order);
  if (!demand.contradiction().empty()) choice.candidates.clear();

  for (const Dropped& d : dropped) skip(choice.entries, d);
  choice.notes = faults_of(demand, survey);
  for (ReportEntry& e : choice.entries) {
    for (DeviceReport& d : e.devices)
      for (std::size_t r = 0; r < choice.candidates.size(); ++r)
        if (choice.candidates[r].path == e.path && choice.candidates[r].label == d.label) {
          d.rank = static_cast<int>(r);
          d.reason = r == 0 ? "the best device that may be used" : concat("number ", r + 1, " of ", choice.candidates.size());
        }
    const bool works = e.status == Status::usable || e.status == Status::limited;
    const auto shown = std::ranges::find_if(e.devices, [](const DeviceReport& d) { return d.status == Status::skipped; });
    if (works && shown != e.devices.end() && std::ranges::none_of(e.devices, [](const DeviceReport& d) { return d.rank >= 0; })) {
      e.status = Status::skipped;
      e.code = shown->code;
      e.cause = concat(shown->label, ": ", shown->reason);
      e.remedy = shown->remedy;
    }
  }
  return choice;
}

std::vector<ReportEntry> unused_cards(const Settings& settings, const Choice& choice, const std::vector<GraphicsCard>& cards) {
  std::vector<ReportEntry> notes;
  const CudaVisibility visible(settings.cuda_visible_devices, nullptr, cards);
  for (const GraphicsCard& card : cards) {
    if (card.only_displays()) continue;
    const auto serves = [&](const Candidate& c) {
      if (c.device.device_class > QUERN_DEVICE_INTEGRATED) return false;
      return c.device.pci_address.empty() ? c.device.vendor_id == card.vendor : c.device.pci_address == card.address;
    };
    if (std::ranges::any_of(choice.candidates, serves)) continue;
    ReportEntry note = system_note(Status::warning, code::card_unused, {}, {});
    std::string why;
    if (visible.hides_card(card)) {
      why = concat(settings.cuda_visible_devices.source, "='", settings.cuda_visible_devices.value, "' hides it");
      note.remedy = concat("change ", settings.cuda_visible_devices.source, ", or `unset ", settings.cuda_visible_devices.source, "`");
      note.status = Status::skipped;
    }
    for (const ReportEntry& e : choice.entries)
      for (const DeviceReport& d : e.devices)
        if (why.empty() && d.info.pci_address == card.address) {
          why = d.reason;
          note.remedy = d.remedy;
        }
    const auto add_refusal = [&](const ReportEntry& e) {
      why += (why.empty() ? "" : "; ") + e.cause;
      if (note.remedy.empty()) note.remedy = e.remedy;
    };
    if (why.empty())
      for (const ReportEntry& e : choice.entries)
        if ((e.status == Status::refused || e.status == Status::skipped) && !e.id.empty() && e.id != "cpu" &&
            (card.vendor == 0x10de || e.id != "cuda"))
          add_refusal(e);
    if (why.empty()) {
      const bool nvidia = card.vendor == 0x10de;
      why = "no installed backend drives it";
      note.remedy = nvidia ? "install quern-backend-cuda or quern-backend-vulkan" : "install quern-backend-vulkan";
    }
    note.path = card.address;
    note.cause = concat("the ", card.words(), card.driver.empty() ? " (no kernel driver)" : " (kernel driver " + card.driver + ")",
                        " is not used: ", why);
    notes.push_back(std::move(note));
  }
  return notes;
}

/// What to do about a backend that is not here: the name that may have been meant, or else its package.
static std::string remedy_for_missing(const std::string& id, const Choice& choice) {
  std::vector<std::string> names{"cpu", "cuda", "vulkan"};
  for (const ReportEntry& e : choice.entries)
    if (!e.id.empty() && std::ranges::find(names, e.id) == names.end()) names.push_back(e.id);
  const std::string meant = nearest(id, names);
  return meant.empty() || meant == id ? concat("install quern-backend-", id) : concat("did you mean ", meant, "?");
}

/// Why a backend has no candidate, and what to do.
static std::pair<std::string, std::string> why_not(const std::string& id, const Report& report, const Choice& choice) {
  if (const ReportEntry* e = report.plugin(id)) return {e->cause, e->remedy};
  std::string directories;
  for (const std::string& d : report.directories) directories += (directories.empty() ? "" : ", ") + d;
  return {concat("'", id, "' is not installed", directories.empty() ? "" : " in " + directories), remedy_for_missing(id, choice)};
}

std::vector<ReportEntry> passed_over(const Demand& demand, const Choice& choice, const Survey& survey) {
  std::vector<ReportEntry> notes;
  if (!demand.lists_backends() || choice.candidates.empty()) return notes;
  const Report report{survey.directories, choice.entries};
  for (const std::string& id : demand.ids()) {
    if (std::ranges::find(choice.candidates, id, &Candidate::plugin_id) != choice.candidates.end()) continue;
    const auto [cause, remedy] = why_not(id, report, choice);
    notes.push_back(system_note(Status::warning, code::demand_in_part,
                                concat(demand.words(), ": ", id, " cannot be used, and ", choice.candidates.front().label,
                                       " computes: ", cause.empty() ? "it has no device that may be used" : cause),
                                remedy));
  }
  return notes;
}

std::string unmet(const Settings& settings, const Demand& demand, const Choice& choice, const Survey& survey) {
  if (!demand.contradiction().empty()) return concat(demand.contradiction(), "; change one of them");
  const auto serves_named = [&](const Candidate& c) { return demand.device()->matches(c.plugin_id, c.index, c.device); };
  const bool named_missing = demand.device() && std::ranges::none_of(choice.candidates, serves_named);
  if (!choice.candidates.empty() && !named_missing) return {};

  std::string text = demand.is_made() || settings.force_cpu.value ? concat(demand.words(), " cannot be met")
                                                                  : std::string("no backend can be used on this machine");
  std::string remedy;
  const auto say = [&](const std::string& cause, const std::string& what_to_do) {
    if (!cause.empty()) text += ": " + cause;
    if (remedy.empty()) remedy = what_to_do;
  };
  const Report report{survey.directories, choice.entries};
  if (named_missing) {
    std::string offered;
    for (const ReportEntry& e : choice.entries)
      for (std::size_t i = 0; i < e.devices.size(); ++i) {
        const DeviceReport& d = e.devices[i];
        if (demand.device()->matches(e.id, static_cast<std::uint32_t>(i), d.info)) {
          say(concat(d.label, " (", d.info.name, "): ", d.reason), d.remedy);
          return text + (remedy.empty() ? "" : "; " + remedy);
        }
        offered += concat(offered.empty() ? "" : ", ", d.label, " (", d.info.name, ")");
      }
    const bool plugin_refused = !demand.device()->plugin_id.empty() &&
                                (!report.plugin(demand.device()->plugin_id) || report.plugin(demand.device()->plugin_id)->devices.empty());
    if (!plugin_refused) {
      say(concat("there is no such device; the devices are ", offered.empty() ? "none" : offered),
          "name one of these, or run 'quern devices'");
      return concat(text, "; ", remedy);
    }
  }
  std::vector<std::string> ids = demand.ids();
  if (named_missing) ids = {demand.device()->plugin_id};
  if (ids.empty())
    for (const ReportEntry& e : choice.entries)
      if (!e.id.empty() && std::ranges::find(ids, e.id) == ids.end()) ids.push_back(e.id);
  for (const std::string& id : ids) {
    const auto [cause, what_to_do] = why_not(id, report, choice);
    say(cause, what_to_do);
  }
  if (ids.empty()) {
    for (const ReportEntry& e : choice.entries) say(e.cause, e.remedy);
    for (const ReportEntry& e : survey.notes) say(e.cause, e.remedy);
  }
  return text + (remedy.empty() ? "" : "; " + remedy);
}

}  // namespace quern::loader
