// Search, S0 to S3 over all plugins.
#include "survey.hpp"

#include "child.hpp"
#include "discovery.hpp"
#include "examine.hpp"
#include "fingerprint.hpp"
#include "location.hpp"
#include "negotiate.hpp"
#include "quern/graph/error.hpp"
#include "quern/sdk/thread.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <system_error>

namespace quern::loader {
namespace {

/// What is wrong with the cache, if anything, and whether a new result took its place.
struct CacheFault {
  std::string text;
  bool replaced = false;
};

/// Does the S1 to S3 work for one plugin: cache, helper, or this process.
class Prober {
 public:
  /// demanded: who names a plugin gets an answer of now, not a crash or time-out of before. Unless believes_kept, no answer of before at all.
  Prober(const Settings& settings, bool demanded, bool believes_kept = true)
      : settings_(settings),
        believes_kept_(believes_kept),
        doubtful_(demanded ? ProbeCache::Doubtful::never : ProbeCache::Doubtful::for_a_while),
        facts_(own_facts(settings.allow_dev_plugins.value)),
        cache_(settings.cache_directory.value),
        helper_(!settings.probe_program.empty()   ? settings.probe_program
                : settings.probe_in_process.value ? std::string()
                                                  : find_helper()) {
    if (settings_.least_abi_minor) facts_.abi_minor_min = *settings_.least_abi_minor;
  }

  const HostFacts& facts() const { return facts_; }

  void forget(const Surveyed& plugin) const {
    cache_.forget(slot(plugin, false));
    cache_.forget(slot(plugin, true));
  }
  void keep(const Surveyed& plugin) const {
    std::string fault;  // without a place to keep it the next program asks again
    const HelperRequest asked = request(plugin, false);
    if (cache_.is_on())
      cache_.keep(slot(plugin, false), fingerprint(asked, helper_, plugin.found, facts_, settings_), plugin.examination, fault);
  }

  void probe(Surveyed& plugin, bool with_bandwidth, CacheFault& fault) const {
    const auto start = std::chrono::steady_clock::now();
    if (plugin.registered || settings_.probe_in_process.value) here(plugin);
    else outside(plugin, with_bandwidth, fault);
    plugin.verdict = plugin.examination.verdict;
    plugin.stage = plugin.examination.stage;
    plugin.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void here(Surveyed& plugin) const {
    ExamineRequest request;
    request.path = plugin.path;
    request.registered = plugin.registered;
    request.facts = facts_;
    request.options = host_options(plugin.found.id, settings_);
    request.log = settings_.log;
    plugin.examination = examine(request, plugin.found);
    plugin.in_process = true;
  }

  static std::string slot(const Surveyed& plugin, bool with_bandwidth) { return plugin.path + (with_bandwidth ? " with bandwidth" : ""); }
  HelperRequest request(const Surveyed& plugin, bool with_bandwidth) const {
    return {plugin.path, settings_.allow_dev_plugins.value, with_bandwidth, host_options(plugin.found.id, settings_)};
  }

  void outside(Surveyed& plugin, bool with_bandwidth, CacheFault& fault) const {
    const HelperRequest asked = request(plugin, with_bandwidth);
    const std::string place = slot(plugin, with_bandwidth);
    const std::string key = cache_.is_on() ? fingerprint(asked, helper_, plugin.found, facts_, settings_) : std::string();
    plugin.from_cache = false;
    if (believes_kept_) {
      if (auto kept = cache_.find(place, key, doubtful_, fault.text)) {
        plugin.examination = std::move(*kept);
        plugin.from_cache = true;
        return;
      }
    }
    plugin.examination = probe_in_child(helper_, asked, settings_.probe_limit);
    // A CPU plugin touches no driver: without a helper it is probed here, and the report says so.
    if (plugin.examination.verdict.code == code::no_helper && plugin.found.device_class == QUERN_DEVICE_CPU) {
      const Verdict why = plugin.examination.verdict;
      here(plugin);
      plugin.examination.reasons.push_back({QUERN_NOT_FOUND, why.cause + "; it was probed in this process", "", why.remedy});
      return;
    }
    std::string unkept;
    cache_.keep(place, key, plugin.examination, unkept);
    fault.replaced = unkept.empty();
    if (!unkept.empty()) fault.text = std::move(unkept);
  }

  const Settings& settings_;
  bool believes_kept_;
  ProbeCache::Doubtful doubtful_;
  HostFacts facts_;
  ProbeCache cache_;
  std::string helper_;
};

/// Runs the probes side by side: one that hangs costs its limit once, not once a plugin.
void probe_all(const Prober& prober, const std::vector<Surveyed*>& plugins, bool with_bandwidth, std::vector<ReportEntry>& notes) {
  std::vector<CacheFault> faults(plugins.size());
  std::vector<std::exception_ptr> failures(plugins.size());  // of this host, out of memory say: an exception must not end a thread
  {
    std::vector<sdk::Thread> threads;
    for (std::size_t i = plugins.size(); i-- > 0;) {
      const auto work = [&prober, plugin = plugins[i], with_bandwidth, &fault = faults[i], &failure = failures[i]]() noexcept {
        try {
          prober.probe(*plugin, with_bandwidth, fault);
        } catch (...) { failure = std::current_exception(); }
      };
      if (i == 0) {  // the first in this thread
        work();
        break;
      }
      try {
        threads.emplace_back(work);
      } catch (const std::system_error&) {  // no more threads: one after the other
        work();
      }
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (const CacheFault& fault : faults)
    if (!fault.text.empty())
      notes.push_back(system_note(Status::warning, code::cache_fault,
                                  fault.text + (fault.replaced ? "; the plugin was probed anew and the result replaced" : ""),
                                  fault.replaced ? "" : "remove the file; probing works without it, but takes longer"));
}

Surveyed inspect_registered(quern_plugin_query_fn query, std::size_t number, const HostFacts& facts) {
  Surveyed plugin;
  plugin.registered = query;
  plugin.path = concat("registered:", number);
  plugin.stage = Stage::negotiate;
  plugin.in_process = true;
  if (!query) {
    plugin.verdict = {code::no_entry, concat(plugin.path, ": a null pointer was registered"), "register the plugin's entry", {}};
    return plugin;
  }
  quern_plugin_api api{};
  plugin.verdict = negotiate(plugin.path, query, "", facts, api);
  if (!plugin.verdict.ok()) return plugin;
  plugin.found.id = copy_string(api.id);
  plugin.found.version = copy_string(api.version);
  plugin.path = "registered:" + plugin.found.id;
  return plugin;
}

/// The plugin that has this id already, unless it was refused before it could claim it.
void apply_shadows(std::vector<Surveyed>& plugins) {
  std::map<std::string, std::string> owners;
  for (Surveyed& p : plugins) {
    if (!p.verdict.ok() || p.skipped) continue;
    const auto [owner, is_new] = owners.emplace(p.found.id, p.path);
    if (is_new) continue;
    p.skipped = true;
    p.verdict = {code::shadowed, concat(p.path, ": '", p.found.id, "' was found earlier, in ", owner->second), {}, {}};
    p.stage = Stage::search;
  }
}

void read_fault(const Settings& settings, Surveyed& plugin, std::vector<ReportEntry>& notes) {
  if (plugin.registered || settings.cache_directory.value.empty()) return;
  std::string problem;
  const std::string file = ProbeCache(settings.cache_directory.value).fault_file(plugin.path);
  plugin.fault = find_fault(file, file_identity(plugin.path), problem);
  if (!problem.empty()) notes.push_back(system_note(Status::warning, code::cache_fault, problem, "remove the file"));
}

}  // namespace

ReportEntry system_note(Status status, const char* code, std::string cause, std::string remedy) {
  ReportEntry entry;
  entry.stage = Stage::system;
  entry.status = status;
  entry.code = code;
  entry.cause = std::move(cause);
  entry.remedy = std::move(remedy);
  return entry;
}

Survey survey(const Settings& settings, const Demand& demand) {
  Survey result;
  const Prober prober(settings, demand.is_made());
  Discovery discovery = discover(settings, plugin_directories_from(code_directory()));
  result.directories = std::move(discovery.directories);
  result.notes = std::move(discovery.notes);
  for (std::size_t i = 0; i < settings.registered.size(); ++i)
    result.plugins.push_back(inspect_registered(settings.registered[i], i, prober.facts()));
  for (const std::string& path : discovery.files) {
    Surveyed plugin;
    plugin.path = path;
    plugin.stage = Stage::inspect;
    plugin.verdict = inspect_file(path, prober.facts(), plugin.found);
    result.plugins.push_back(std::move(plugin));
  }
  if (result.plugins.empty() && !result.directories.empty())
    result.notes.push_back(system_note(Status::warning, code::no_plugin,
                                       concat("no file named libbackend_*.so in ", result.directories.front(),
                                              result.directories.size() > 1 ? " and the other directories" : ""),
                                       "install a backend package such as quern-backend-cpu, or set QUERN_BACKEND_PATH"));
  apply_shadows(result.plugins);
  std::vector<Surveyed*> open;
  for (Surveyed& plugin : result.plugins) {
    if (plugin.found.id.empty() || plugin.skipped) continue;
    // The user's wish first: a forbidden plugin that would be refused anyway is no news.
    if (Verdict closed = demand.gate(plugin.found.id, plugin.path); !closed.ok()) {
      plugin.verdict = std::move(closed);
      plugin.skipped = true;
      plugin.stage = Stage::search;
    } else if (plugin.verdict.ok()) {
      open.push_back(&plugin);
    }
  }
  probe_all(prober, open, /*with_bandwidth=*/false, result.notes);
  for (Surveyed* plugin : open) read_fault(settings, *plugin, result.notes);
  return result;
}

void probe_again(const Settings& settings, Surveyed& plugin, std::vector<ReportEntry>& notes) {
  const Prober prober(settings, true, /*believes_kept=*/false);
  prober.forget(plugin);
  probe_all(prober, {&plugin}, /*with_bandwidth=*/false, notes);
}

void keep_again(const Settings& settings, const Surveyed& plugin) { Prober(settings, true).keep(plugin); }

void measure(const Settings& settings, const std::vector<std::string>& ids, Survey& survey) {
  if (settings.probe_in_process.value) return;  // a measurement makes contexts, and they would stay
  const Prober prober(settings, false);
  std::vector<Surveyed> again;
  for (const Surveyed& p : survey.plugins)
    if (p.usable() && !p.in_process && std::ranges::find(ids, p.found.id) != ids.end()) again.push_back(p);
  std::vector<Surveyed*> open;
  for (Surveyed& p : again) open.push_back(&p);
  probe_all(prober, open, /*with_bandwidth=*/true, survey.notes);
  for (const Surveyed& measured : again)
    for (Surveyed& p : survey.plugins)
      if (p.path == measured.path && measured.usable() && measured.examination.devices.size() == p.examination.devices.size())
        for (std::size_t i = 0; i < p.examination.devices.size(); ++i)
          p.examination.devices[i].bandwidth = measured.examination.devices[i].bandwidth;
}

}  // namespace quern::loader
