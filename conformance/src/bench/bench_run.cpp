// See bench_run.hpp.
#include "bench/bench_run.hpp"

#include "judge/judge.hpp"
#include "worker/arena.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::conformance {
namespace {

constexpr double start_seconds = 120;

Status status_of_outcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::ran: return Status::pass;
    case Outcome::unsupported: return Status::unsupported;
    case Outcome::resource: return Status::resource;
    case Outcome::device_lost: return Status::device_lost;
    case Outcome::failed: break;
  }
  return Status::fail;
}

Verdict judge_outputs(const Case& c, const CaseData& data, const ModeResult& mode, SharedMemory& outputs) {
  Expected expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, data.inputs, data.states}, expected);
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  const std::vector<Tensor> found = map_outputs(c, outputs.map(output_bytes(c), true));
  for (std::size_t o = 0; o < found.size(); ++o)
    if (!found[o].absent() && found[o].count() != 0) verdict.merge(judge(expected.outputs[o], found[o], mode.numerics));
  return verdict;
}

}  // namespace

BenchRun::BenchRun(const Target& target, const Selection& selection, std::uint64_t seed)
    : target_(target), selection_(selection), seed_(seed), inputs_("inputs") {
  if (selection_.backend.empty() && selection_.plugins.empty()) selection_.backend = target.plugin_id;
}

std::string BenchRun::ensure_process() {
  if (process_) return {};
  std::vector<std::string> arguments{"device-process", target_.label};
  for (const std::string& a : selection_.arguments()) arguments.push_back(a);
  auto process = std::make_unique<ChildProcess>(arguments, &inputs_);
  const ChildProcess::Answer answer = process->receive(start_seconds);
  if (answer.end != ChildProcess::End::answered) return "the device process did not start: " + answer.cause;
  const nlohmann::json ready = nlohmann::json::parse(answer.line);
  if (!ready.at("ready").get<bool>()) return "the device does not open: " + ready.at("text").get<std::string>();
  process_ = std::move(process);
  return {};
}

BenchResult BenchRun::run(const Case& c, std::uint32_t samples) {
  BenchResult result;
  const CaseData data = map_data(c, inputs_.map(input_bytes(c), true));
  fill_data(c, data, seed_);
  std::string problem = ensure_process();
  if (problem.empty() && !process_->send("bench " + std::to_string(samples) + " " + c.name)) problem = "the device process is gone";
  if (!problem.empty()) {
    process_.reset();
    result.verdict = {Status::crash, problem, 0, 0, {}};
    return result;
  }
  const ChildProcess::Answer answer = process_->receive(static_cast<double>(samples + 2) * c.deadline_seconds);
  if (answer.end != ChildProcess::End::answered) {
    process_.reset();
    result.verdict = {answer.end == ChildProcess::End::died ? Status::crash : Status::timeout, answer.cause, 0, 0, {}};
    return result;
  }
  const CaseAnswer parsed = parse_answer(answer.line);
  const ModeResult& mode = parsed.modes.at(0);
  result.fast = mode.numerics == Numerics::fast;
  result.packed = mode.packed;
  result.kernel = mode.kernel;
  if (mode.outcome != Outcome::ran) {
    result.verdict = {status_of_outcome(mode.outcome), mode.text, 0, 0, {}};
    if (mode.outcome == Outcome::device_lost) process_.reset();  // a loss is sticky: the next case gets a process of its own
    return result;
  }
  result.seconds = parsed.seconds;
  std::ranges::sort(result.seconds);
  result.verdict = judge_outputs(c, data, mode, process_->outputs());
  return result;
}

}  // namespace quern::conformance
