// See jobs.hpp.
#include "worker/jobs.hpp"

#include "worker/child_process.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::conformance {

std::uint32_t jobs_for(std::uint32_t processors, const std::vector<Target>& targets,
                       const std::function<std::uint64_t(const Target&)>& memory) {
  constexpr std::uint32_t most_processes = 6;  // they take turns on the device: more do not end sooner
  constexpr std::uint64_t of_a_process = 1 << 30;
  std::uint32_t jobs = std::max(processors, 1u);
  for (const Target& t : targets) {
    if (t.runs_on_processors()) continue;
    jobs = std::min(jobs, most_processes);
    if (const std::uint64_t bytes = memory(t); bytes != 0)
      jobs = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes / of_a_process, 1, jobs));
  }
  return jobs;
}

std::uint64_t memory_of(const Target& target, const Selection& selection) {
  Selection one = selection;
  if (one.backend.empty() && one.plugins.empty()) one.backend = target.plugin_id;
  std::vector<std::string> arguments{"device-process", target.label};
  for (const std::string& a : one.arguments()) arguments.push_back(a);
  const SharedMemory inputs("inputs");
  ChildProcess process(arguments, &inputs);
  const ChildProcess::Answer answer = process.receive(120);
  if (answer.end != ChildProcess::End::answered) return 0;  // the first case says why
  return nlohmann::json::parse(answer.line).value("memory", std::uint64_t{0});
}

}  // namespace quern::conformance
