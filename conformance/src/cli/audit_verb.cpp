// audit: plugins as sessions drive them, in a program of another name.
#include "audit/audit.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"

#include <cmath>
#include <random>

namespace quern::conformance {
namespace {

/// "exact 12 %", or what is wrong.
std::string words(const char* numerics, const Verdict& v) {
  if (v.status != Status::pass) return std::string(numerics) + " " + status_name(v.status) + ": " + v.text;
  return std::string(numerics) + " " + std::to_string(static_cast<int>(std::ceil(v.worst * 100))) + " %";
}

/// Below 2^31, which --seed takes.
std::uint64_t any_seed() { return std::random_device()() >> 1; }

}  // namespace

int audit_verb(const Options& options) {
  AuditPlan plan;
  plan.selection = options.selection;
  plan.seed = options.given.contains("--seed") ? options.seed : any_seed();
  plan.models = options.models;
  plan.stop_at_failure = options.stop_at_failure;
  find_session_program(plan);
  to_output() << "seed " << plan.seed << "; --seed " << plan.seed << " repeats this audit\n" << std::flush;
  const AuditResult result = audit(plan, [](const AuditedDevice& device, const AuditedModel& model) {
    to_output() << device.name << "  " << model.model << ": " << words("exact", model.exact) << ", " << words("fast", model.fast) << "\n"
                << std::flush;
  });
  if (result.exit_code != 0) {
    write_error(result.error);
    return result.exit_code;
  }
  bool green = true;
  for (const AuditedDevice& device : result.devices) {
    std::size_t right = 0;
    for (const AuditedModel& m : device.models) right += m.exact.status == Status::pass && m.fast.status == Status::pass;
    green = green && device.green();
    to_output() << device.name << " (" << device.description << "): " << right << " of " << device.models.size()
                << " models as f64 has them, in sessions of a program named " << result.program << "\n";
    if (!device.host_work.empty()) to_output() << device.name << ": ON THE HOST'S PROCESSORS: " << device.host_work << "\n";
  }
  for (const std::string& device : result.left_out) to_output() << "not audited: " << device << "\n";
  return green ? 0 : 7;
}

}  // namespace quern::conformance
