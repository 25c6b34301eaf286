// See lane.hpp.
#include "worker/lane.hpp"

#include "case_table/whole_graph.hpp"
#include "data/subnormals.hpp"
#include "graphs/judge_graph.hpp"
#include "worker/arena.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

namespace quern::conformance {
namespace {

constexpr double start_seconds = 120;
/// A device that hangs when it is opened costs this often start_seconds, not once a case.
constexpr std::uint32_t most_silent_starts = 2;

Expected reference_of(const Case& c, const CaseData& data) {
  Expected expected;
  if (c.script || c.graph) return expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, data.inputs, data.states}, expected);
  return expected;
}

}  // namespace

const Expected& Lane::Reference::get() {
  if (!expected_) expected_ = reference_of(what_, data_);
  return *expected_;
}

const Expected& Lane::Reference::of_flushed() {
  if (flushed_) return *flushed_;
  CaseData flushed = data_;
  for (std::vector<Tensor>* list : {&flushed.inputs, &flushed.states})
    for (Tensor& tensor : *list)
      if (holds_subnormals(tensor)) tensor = without_subnormals(tensor);
  flushed_ = reference_of(what_, flushed);
  return *flushed_;
}

namespace {

/// The verdict of one mode; `outputs` are those of this mode. `flushes`: the device declares `ftz`.
Verdict judge_mode(const ModeResult& mode, Lane::Reference& reference, bool flushes, const std::vector<Tensor>& outputs) {
  switch (mode.outcome) {
    case Outcome::unsupported: return {Status::unsupported, mode.text, 0, 0, {}};
    case Outcome::failed: return {Status::fail, mode.text, 0, 0, {}};
    case Outcome::resource: return {Status::resource, mode.text, 0, 0, {}};
    case Outcome::device_lost: return {Status::device_lost, mode.text, 0, 0, {}};
    case Outcome::ran: break;
  }
  const Expected& expected = reference.get();
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  bool elements = false;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].absent() || outputs[o].count() == 0) continue;
    elements = true;
    Verdict found = judge(expected.outputs[o], outputs[o], mode.numerics);
    if (found.status == Status::fail && flushes)
      found = judge(expected.outputs[o], outputs[o], mode.numerics, &reference.of_flushed().outputs[o]);
    verdict.merge(found);
  }
  // A case whose outputs have no element by design is judged by what surrounds it: canaries, status, inputs.
  if (elements && verdict.compared == 0) verdict.merge({Status::unknown, "no element was compared", 0, 0, {}});
  if (verdict.status != Status::pass)
    verdict.text = mode.mode() + ": " + verdict.text + (mode.kernel.empty() ? "" : " (" + mode.kernel + ")");
  return verdict;
}

}  // namespace

void join_repeat(CaseResult& first, const CaseResult& again, std::uint32_t round) {
  const Verdict &a = first.verdict, &b = again.verdict;
  if (a.status == b.status || a.text.starts_with("flaky: ")) return first.verdict.merge(b);
  const Verdict& worse = a.status > b.status ? a : b;
  Verdict flaky{std::max(worse.status, Status::fail), {}, std::fmax(a.worst, b.worst), a.compared + b.compared, std::max(a.tier, b.tier)};
  flaky.text = std::string("flaky: ") + status_name(a.status) + (round == 2 ? " in run 1, " : " in the runs before, ") +
               status_name(b.status) + " in run " + std::to_string(round) + ": " + worse.text;
  first.verdict = std::move(flaky);
}

Lane::Lane(const RunPlan& plan, Journal& journal, HostMemory& memory)
    : plan_(plan),
      journal_(journal),
      memory_(memory),
      inputs_("inputs"),
      processes_(plan.targets.size()),
      flushes_(plan.targets.size()),
      silent_starts_(plan.targets.size()) {}

std::string Lane::ensure_process(std::size_t target) {
  if (processes_[target]) return {};
  if (silent_starts_[target] >= most_silent_starts)
    return "the device process did not answer " + std::to_string(most_silent_starts) + " starts in a row; it was not started again";
  std::vector<std::string> arguments{"device-process", plan_.targets[target].label};
  if (plan_.seed != 0) arguments.insert(arguments.end(), {"--seed", std::to_string(plan_.seed)});
  Selection selection = plan_.selection;
  if (selection.backend.empty() && selection.plugins.empty()) selection.backend = plan_.targets[target].plugin_id;
  for (const std::string& a : selection.arguments()) arguments.push_back(a);
  auto process = std::make_unique<ChildProcess>(arguments, &inputs_);
  const ChildProcess::Answer answer = process->receive(start_seconds);
  silent_starts_[target] = answer.end == ChildProcess::End::timed_out ? silent_starts_[target] + 1 : 0;
  if (answer.end != ChildProcess::End::answered) return "the device process did not start: " + answer.cause;
  const nlohmann::json ready = nlohmann::json::parse(answer.line);
  if (!ready.at("ready").get<bool>()) return "the device does not open: " + ready.at("text").get<std::string>();
  flushes_[target] = declares_ftz(ready.at("architecture").get<std::string>());
  processes_[target] = std::move(process);
  return {};
}

CaseResult Lane::judge_answer(const Case& c, const CaseAnswer& answer, Reference& reference, bool flushes, SharedMemory& outputs) {
  CaseResult result;
  if (answer.script) {
    result.verdict = *answer.script;
    return result;
  }
  const std::uint64_t one = output_bytes(c);
  const auto arena = outputs.map(one * answer.modes.size(), true);
  if (c.graph) return judge_whole_graph(c, answer, flushes, arena);
  result.verdict = {Status::pass, {}, 0, 0, {}};
  if (answer.modes.empty()) result.verdict = {Status::unknown, "no mode was run", 0, 0, {}};
  for (std::size_t m = 0; m < answer.modes.size(); ++m) {
    result.verdict.merge(judge_mode(answer.modes[m], reference, flushes, map_outputs(c, arena.subspan(m * one, one))));
    if (result.kernel.find(answer.modes[m].kernel) == std::string::npos)
      result.kernel += (result.kernel.empty() ? "" : ", ") + answer.modes[m].kernel;
  }
  return result;
}

CaseResult Lane::judge_whole_graph(const Case& c, const CaseAnswer& answer, bool flushes, std::span<std::byte> arena) {
  std::vector<ModeResult> modes = answer.modes;
  CaseResult result;
  std::set<std::string> kernels;  // of all modes
  const std::uint64_t one = output_bytes(c);
  for (std::size_t m = 0; m < modes.size(); ++m) {
    modes[m].flushes = flushes;
    modes[m].outputs = map_outputs(c, arena.subspan(m * one, one));
    for (std::size_t o = 0; o < modes[m].outputs.size(); ++o)
      if (!answer.observed[m].contains(o)) modes[m].outputs[o] = Tensor();
    kernels.insert(modes[m].facts.kernels.begin(), modes[m].facts.kernels.end());
  }
  for (const std::string& kernel : kernels) result.kernel += (result.kernel.empty() ? "" : "+") + kernel;
  const CaseData data = map_data(c, inputs_.map(input_bytes(c), true));
  result.verdict = c.graph->judge != nullptr ? c.graph->judge(c, data, modes) : judge_graph(c, data, modes, plan_.threads_of_a_lane);
  return result;
}

CaseResult Lane::collect(const Case& c, std::size_t target, Reference& reference, bool retry) {
  CaseResult result;
  ChildProcess& process = *processes_[target];
  const double deadline = plan_.deadline_seconds == 0 ? c.deadline_seconds : std::min<double>(c.deadline_seconds, plan_.deadline_seconds);
  const ChildProcess::Answer answer =
      process.receive(4.0 * plan_.targets[target].patience() * deadline);  // of all modes together; each run has its own deadline
  if (answer.end == ChildProcess::End::answered) {
    try {
      const CaseAnswer parsed = parse_answer(answer.line);
      result = judge_answer(c, parsed, reference, flushes_[target], process.outputs());
      if (!parsed.changed.empty() && result.verdict.status == Status::pass)
        result.verdict = {Status::fail, "the plugin changed the process [C9]: " + parsed.changed, 0, result.verdict.compared, {}};
    } catch (const std::exception& error) {
      result.verdict = {Status::crash, std::string("the answer of the device process cannot be read: ") + error.what(), 0, 0, {}};
      processes_[target].reset();
      return result;
    }
    if (const std::string said = process.printed(); !said.empty() && result.verdict.status == Status::pass)
      result.verdict = {Status::fail, "the plugin printed [C9]: " + said, 0, result.verdict.compared, {}};
  } else {
    result.verdict = {answer.end == ChildProcess::End::died ? Status::crash : Status::timeout, answer.cause, 0, 0, {}};
  }
  const Status status = result.verdict.status;
  if (status < Status::device_lost) return result;
  processes_[target].reset();  // whatever the case left behind goes with its process
  if (retry) return result;
  if (const std::string problem = ensure_process(target); !problem.empty() || !processes_[target]->send(c.name)) return result;
  const CaseResult again = collect(c, target, reference, true);
  processes_[target].reset();
  result.verdict.text += std::string("; alone in a new process: ") + status_name(again.verdict.status);
  return result;
}

std::vector<CaseResult> Lane::run_once(const Case& c, const std::vector<bool>& wanted, Reference& reference) {
  std::vector<CaseResult> results(plan_.targets.size());
  std::vector<bool> sent(plan_.targets.size(), false);
  for (std::size_t t = 0; t < plan_.targets.size(); ++t) {
    if (!wanted[t]) continue;
    std::string problem = ensure_process(t);
    if (problem.empty() && !processes_[t]->send(c.name)) {  // it died between two cases
      problem = "the device process died between two cases";
      processes_[t].reset();
    }
    sent[t] = problem.empty();
    if (sent[t]) continue;
    results[t].verdict = {Status::crash, problem, 0, 0, {}};
  }
  if (!plan_.reference_after) reference.get();  // while the devices work
  for (std::size_t t = 0; t < plan_.targets.size(); ++t)
    if (sent[t]) results[t] = collect(c, t, reference, false);
  return results;
}

std::vector<CaseResult> Lane::run(const Case& c, const std::vector<bool>& wanted) {
  std::vector<CaseResult> results(plan_.targets.size());
  std::string lacking;
  const HostMemory::Reservation memory = memory_.reserve(c.script ? 0 : host_bytes(c), lacking);
  if (!lacking.empty()) {
    for (std::size_t t = 0; t < plan_.targets.size(); ++t)
      if (wanted[t]) {
        journal_.begin(c.name, plan_.targets[t].label);
        results[t].verdict = apply_exclusions(plan_.exclusions[t], c.name, {Status::resource, lacking, 0, 0, {}});
        journal_.end(c.name, plan_.targets[t].label, results[t]);
      }
    return results;
  }
  const auto arena = inputs_.map(c.script ? 0 : input_bytes(c), true);
  CaseData data;
  if (!c.script) {
    data = map_data(c, arena);
    fill_data(c, data, plan_.seed);
  }
  for (std::size_t t = 0; t < plan_.targets.size(); ++t)
    if (wanted[t]) journal_.begin(c.name, plan_.targets[t].label);
  Reference reference(c, data);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t round = 1; round <= plan_.repeat; ++round) {
    std::vector<CaseResult> again = run_once(c, wanted, reference);
    for (std::size_t t = 0; t < again.size(); ++t) {
      if (round == 1) results[t] = std::move(again[t]);
      else if (wanted[t]) join_repeat(results[t], again[t], round);
    }
  }
  for (std::size_t t = 0; t < plan_.targets.size(); ++t) {
    if (!wanted[t]) continue;
    results[t].milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    results[t].verdict = apply_exclusions(plan_.exclusions[t], c.name, std::move(results[t].verdict));
    journal_.end(c.name, plan_.targets[t].label, results[t]);
  }
  if (memory.large()) release();
  return results;
}

void Lane::release() {
  for (auto& process : processes_) process.reset();
  inputs_.release();
}

}  // namespace quern::conformance
