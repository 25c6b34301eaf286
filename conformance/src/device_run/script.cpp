// See script.hpp.
#include "device_run/script.hpp"

#include "case_table/case.hpp"
#include "device_run/breadcrumb.hpp"
#include "device_run/case_run.hpp"
#include "device_run/device_memory.hpp"

namespace quern::conformance {

namespace {

/// Whether a copy of a few elements ends with DEVICE_LOST: a loss is sticky [C18], so that it shows in the next run.
bool is_lost(const loader::Device& device) {
  Case copy;
  copy.op = QUERN_OP_COPY;
  ValueSpec value;
  value.dtype = QUERN_F32;
  value.dims = {16};
  copy.inputs = {value};
  value.kind = QUERN_VALUE_OUTPUT;
  copy.outputs = {value};
  try {
    const CaseData data{{Tensor(QUERN_F32, {16})}, {Tensor()}};
    for (const ModeResult& mode : run_case(device, copy, data))
      if (mode.outcome == Outcome::device_lost) return true;
    return false;
  } catch (const AbiFailure& failure) {  // of the queue
    return failure.status() == QUERN_DEVICE_LOST;
  }
}

}  // namespace

void ScriptContext::check(bool holds, const std::string& claim) {
  ++verdict_.compared;
  crumb_of_claim(claim);
  if (holds) return;
  if (verdict_.status < Status::fail) return verdict_.merge({Status::fail, "does not hold: " + claim, 0, 0, {}});
  if (verdict_.text.find(claim) != std::string::npos) return;  // a claim about each of many, and its first failure is told
  if (++told_ <= most_told) verdict_.text += "; nor: " + claim;
}

void ScriptContext::require(bool holds, const std::string& claim) {
  check(holds, claim);
  if (!holds) throw Ended{};
}

void ScriptContext::unsupported(const std::string& reason) {
  verdict_.merge({Status::unsupported, reason, 0, 0, {}});
  throw Ended{};
}

void ScriptContext::waive(const std::string& capability, const std::string& reason) {
  verdict_.merge({Status::waived, capability + ": " + reason, 0, 0, {}});
  throw Ended{};
}

void ScriptContext::resource(const std::string& reason) {
  verdict_.merge({Status::resource, reason, 0, 0, {}});
  throw Ended{};
}

Verdict ScriptContext::verdict() const {
  Verdict v = verdict_;
  if (told_ > most_told) v.text += "; nor " + std::to_string(told_ - most_told) + " more";
  return v;
}

void ScriptContext::merge(const Verdict& verdict) { verdict_.merge(verdict); }

Verdict run_script(const loader::Device& device, const Case& c, const std::string& seeded_name) {
  ScriptContext context(device, seeded_name);
  Verdict verdict;
  try {
    c.script(context);
    verdict = context.verdict();
  } catch (const ScriptContext::Ended&) { verdict = context.verdict(); } catch (const AbiFailure& failure) {
    verdict = context.verdict();
    const Status status = failure.status() == QUERN_DEVICE_LOST ? Status::device_lost : Status::fail;
    verdict.merge({status, failure.what(), 0, 0, {}});
  } catch (const std::exception& error) {
    verdict = context.verdict();
    verdict.merge({Status::fail, error.what(), 0, 0, {}});
  }
  // A claim about a status does not tell why it does not hold. Where the device is lost, the next case must not get the blame.
  if (verdict.status == Status::fail && is_lost(device))
    verdict.merge({Status::device_lost, verdict.text + "; and the device was lost", 0, 0, {}});
  if (verdict.status == Status::pass && verdict.compared == 0) verdict = {Status::unknown, "the script checked nothing", 0, 0, {}};
  return verdict;
}

}  // namespace quern::conformance
