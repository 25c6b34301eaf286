// See device_process.hpp.
#include "worker/device_process.hpp"

#include "bench/bench_cases.hpp"
#include "case_table/case_table.hpp"
#include "device_run/breadcrumb.hpp"
#include "device_run/cache_sweep.hpp"
#include "device_run/forced_kernels.hpp"
#include "device_run/graph_run.hpp"
#include "device_run/script.hpp"
#include "worker/arena.hpp"
#include "worker/child_process.hpp"
#include "worker/loader_settings.hpp"
#include "worker/process_traces.hpp"

#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>

namespace quern::conformance {
namespace {

using nlohmann::json;

void reply(const json& j) {
  const std::string line = j.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(child_replies, line.data() + sent, line.size() - sent);
    if (n <= 0) return;  // the parent is gone
    sent += static_cast<std::size_t>(n);
  }
}

/// The next line of the requests; false at their end.
bool next_request(std::string& line) {
  static std::string pending;
  for (;;) {
    if (const std::size_t end = pending.find('\n'); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return true;
    }
    char buffer[4096];
    const ssize_t n = ::read(child_requests, buffer, sizeof buffer);
    if (n <= 0) return false;
    pending.append(buffer, static_cast<std::size_t>(n));
  }
}

/// The device under test: as the user has it, and by handles of their own with the option force_kernel.
class DeviceUnderTest {
 public:
  DeviceUnderTest(const Selection& selection, const std::string& label) : loader_(settings(selection, label)) {
    const std::vector<loader::Candidate>& found = loader_.require();
    const auto at = std::ranges::find(found, label, &loader::Candidate::label);
    if (at == found.end()) throw std::runtime_error(label + " was there before and is not any more");
    candidate_ = *at;
  }
  std::shared_ptr<loader::Device> open() { return traced(loader_.open(candidate_)); }
  /// Without a probe each: on a card that is a context.
  std::shared_ptr<loader::Device> open(const std::string& force_kernel) {
    return traced(loader_.open(candidate_, {{"force_kernel", force_kernel}}));
  }

 private:
  static loader::Settings settings(const Selection& selection, const std::string& label) {
    loader::Settings settings = loader_settings(selection);
    settings.probe_limit =
        std::chrono::seconds(60);  // the survey has judged how long a probe takes; here one starts for each job, side by side
    if (!settings.device.is_set()) settings.device.set(label, "the suite");  // one plugin, one device in this process
    return settings;
  }
  static std::shared_ptr<loader::Device> traced(std::shared_ptr<loader::Device> device) {
    // The loader's copy of the table, of this process alone. Every call of the suite goes through it.
    trace_calls(const_cast<quern_plugin_api&>(device->api()));
    return device;
  }

  loader::Loader loader_;
  loader::Candidate candidate_;
};

/// What the device's main heap has free, in bytes; 0: unknown, or it works in the host's memory.
std::uint64_t free_memory(const loader::Device& device) {
  if (device.api().heap_info == nullptr || device.info().heap_count == 0) return 0;
  quern_heap_info info{};
  info.header = {sizeof info, QUERN_TYPE_HEAP_INFO, nullptr};
  return device.api().heap_info(device.handle(), 0, &info, nullptr) == QUERN_OK ? info.budget : 0;
}

json mode_json(const ModeResult& m) {
  json observed = json::array();
  for (std::size_t o = 0; o < m.outputs.size(); ++o)
    if (!m.outputs[o].absent()) observed.push_back(o);
  return {{"fast", m.numerics == Numerics::fast},
          {"packed", m.packed},
          {"as_session", m.as_session},
          {"outcome", static_cast<int>(m.outcome)},
          {"text", m.text},
          {"kernel", m.kernel},
          {"family", m.family},
          {"label", m.label},
          {"role", static_cast<int>(m.role)},
          {"rows", m.extents.rows},
          {"outputs_wanted", m.extents.outputs},
          {"step", m.step},
          {"kernels", m.facts.kernels},
          {"determinism", m.facts.determinism},
          {"numerics_key", m.facts.numerics_key},
          {"told", m.facts.told},
          {"observed", observed}};
}

void copy_outputs(const ModeResult& mode, const std::vector<Tensor>& places) {
  for (std::size_t o = 0; o < places.size(); ++o)
    if (!places[o].absent() && !mode.outputs[o].absent() && !places[o].bytes().empty())
      std::memcpy(places[o].bytes().data(), mode.outputs[o].bytes().data(), places[o].bytes().size());
}

json run_data_case(const loader::Device& device, ForcedKernels& forced, const Case& c, SharedMemory& inputs, SharedMemory& outputs) {
  const CaseData data = map_data(c, inputs.map(input_bytes(c), false));
  const std::vector<ModeResult> modes = c.every_kernel ? forced.run(device, c, data)
                                        : c.graph      ? run_graph(device, c, data)
                                                       : run_case(device, c, data);
  const std::uint64_t one = output_bytes(c);
  const auto arena = outputs.map(one * modes.size(), true);
  json answer{{"modes", json::array()}};
  for (std::size_t m = 0; m < modes.size(); ++m) {
    answer["modes"].push_back(mode_json(modes[m]));
    if (modes[m].outcome == Outcome::ran) copy_outputs(modes[m], map_outputs(c, arena.subspan(m * one, one)));
  }
  return answer;
}

json run_script_case(const loader::Device& device, const Case& c, std::uint64_t seed) {
  const Verdict v = run_script(device, c, seeded_name(c, seed));
  return {{"script", {{"status", status_name(v.status)}, {"text", v.text}, {"compared", v.compared}, {"worst", v.worst}}}};
}

/// Of the first timed run's data: the seeds of runs and audits are below 2^32.
constexpr std::uint64_t bench_seed = std::uint64_t{1} << 40;

/// "bench SAMPLES NAME": the answer is that of one mode, with the seconds of each timed run.
json run_bench(const loader::Device& device, const CaseTable& table, const std::string& request, CacheSweep& sweep, SharedMemory& inputs,
               SharedMemory& outputs) {
  const std::size_t name_at = request.find(' ', 6) + 1;
  const std::string name = request.substr(name_at);
  const Case* c = find_bench_case(table, name);
  if (c == nullptr) return {{"error", "there is no case " + name}};
  const CaseData data = map_data(*c, inputs.map(input_bytes(*c), false));
  std::vector<std::byte> arena(input_bytes(*c));
  const auto other_data = [&](std::uint32_t run) {
    CaseData fresh = map_data(*c, arena);
    fill_data(*c, fresh, bench_seed + run, false);
    return fresh;
  };
  Timing timing{static_cast<std::uint32_t>(std::stoul(request.substr(6))), [&] { sweep.run(); }, other_data, {}};
  const ModeResult mode = time_case(device, *c, data, timing);
  const auto place = outputs.map(output_bytes(*c), true);
  if (mode.outcome == Outcome::ran) copy_outputs(mode, map_outputs(*c, place));
  return {{"modes", json::array({mode_json(mode)})}, {"seconds", timing.seconds}, {"swept", sweep.works()}};
}

}  // namespace

int device_main(const Selection& selection, const std::string& label, std::uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  SharedMemory crumbs(child_crumbs, true);
  leave_breadcrumbs_in(crumbs.map(breadcrumb_bytes, true));
  ProcessTraces traces;
  std::optional<DeviceUnderTest> tested;
  std::shared_ptr<loader::Device> device;
  try {
    device = tested.emplace(selection, label).open();
  } catch (const std::exception& error) {
    reply({{"ready", false}, {"text", error.what()}});
    return 3;
  }
  static const CaseTable& table = *new CaseTable;  // never destroyed: that takes a tenth of making it, and the process ends
  SharedMemory inputs(child_inputs, false), outputs(child_outputs, true);
  ForcedKernels forced([&](const std::string& kernel) { return tested->open(kernel); });
  reply({{"ready", true}, {"architecture", device->info().architecture}, {"memory", free_memory(*device)}});
  CacheSweep sweep(*device);
  for (std::string name; next_request(name);) {
    clear_breadcrumbs();
    if (name.starts_with("bench ")) {
      reply(run_bench(*device, table, name, sweep, inputs, outputs));
      continue;
    }
    const Case* c = table.find(name);
    if (c == nullptr) {
      reply({{"error", "there is no case " + name}});
      continue;
    }
    json answer = c->script ? run_script_case(*device, *c, seed) : run_data_case(*device, forced, *c, inputs, outputs);
    answer["changed"] = traces.changed();
    reply(answer);
  }
  return 0;
}

CaseAnswer parse_answer(const std::string& line) {
  const json j = json::parse(line);
  CaseAnswer answer;
  if (j.contains("error")) throw std::runtime_error(j.at("error").get<std::string>());
  answer.changed = j.value("changed", std::string());
  if (j.contains("script")) {
    const json& s = j.at("script");
    answer.script = Verdict{status_of(s.at("status")), s.at("text"), s.at("worst"), s.at("compared"), {}};
    return answer;
  }
  answer.seconds = j.value("seconds", std::vector<double>());
  for (const json& m : j.at("modes")) {
    ModeResult mode;
    mode.numerics = m.at("fast").get<bool>() ? Numerics::fast : Numerics::exact;
    mode.packed = m.at("packed");
    mode.as_session = m.at("as_session");
    mode.outcome = static_cast<Outcome>(m.at("outcome").get<int>());
    mode.text = m.at("text");
    mode.kernel = m.at("kernel");
    mode.family = m.at("family");
    mode.label = m.at("label");
    mode.role = static_cast<Role>(m.at("role").get<int>());
    mode.extents = {m.at("rows"), m.at("outputs_wanted")};
    mode.step = m.at("step");
    mode.facts = {m.at("kernels").get<std::vector<std::string>>(), m.at("determinism"), m.at("numerics_key"), m.at("told")};
    for (const std::size_t o : m.at("observed")) {
      if (o > 4096) throw std::runtime_error("a mode shows an output that no case has");
      if (answer.observed.size() < answer.modes.size() + 1) answer.observed.resize(answer.modes.size() + 1);
      answer.observed.back().insert(o);
    }
    answer.observed.resize(answer.modes.size() + 1);
    answer.modes.push_back(std::move(mode));
  }
  return answer;
}

}  // namespace quern::conformance
