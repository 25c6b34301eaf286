// See selftest.hpp.
#include "selftest/selftest.hpp"

#include "worker/arena.hpp"
#include "worker/run_cases.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <stdexcept>
#include <thread>

namespace quern::conformance {
namespace {

using Of = Mutant::Of;
constexpr Of wrappers[] = {Of::host, Of::device, Of::queue};

Selection wrapper_selection(const SelftestPlan& plan, Of wrapper, const std::string& mutant) {
  static constexpr const char* files[] = {"/libbackend_mutant.so", "/libbackend_mutant_device.so", "/libbackend_mutant_queue.so"};
  Selection s;
  s.plugins = {plan.plugin_directory + files[static_cast<int>(wrapper)]};
  s.threads = 1;  // mutants run side by side
  s.plugin_options = {{"base", plan.base}, {"mutant", mutant}};
  return s;
}

Target unspoiled_target(const SelftestPlan& plan, Of wrapper) {
  const Survey survey = find_targets(wrapper_selection(plan, wrapper, "none"));
  if (survey.targets.empty())
    throw UsageError("selftest: broken plugins cannot be made of " + plan.base + ": " + survey.error +
                     "; they are made of a plugin that computes on host memory, such as cpu");
  return survey.targets.front();
}

bool matches(const std::vector<std::string>& globs, const std::string& name) {
  return std::ranges::any_of(globs, [&](const std::string& g) { return ::fnmatch(g.c_str(), name.c_str(), 0) == 0; });
}

bool has_output_element(const Case& c) {
  return std::ranges::any_of(c.outputs, [](const ValueSpec& v) { return !v.absent() && element_count(v.dims) > 0; });
}

/// In the order of the globs, so that a row can name its likeliest killers first.
std::vector<const Case*> cases_of(const Mutant& m, const CaseTable& table) {
  std::vector<const Case*> list;
  std::set<const Case*> taken;
  for (const std::string& glob : m.cases)
    for (const Case* c : table.of(Profile::quick)) {
      const bool wanted = m.total ? has_output_element(*c) : true;
      if (wanted && matches({glob}, c->name) && taken.insert(c).second) list.push_back(c);
    }
  return list;
}

/// Whether doing nothing is right: every judged element of every output is expected as it was before the run.
bool expects_no_change(const Case& c) {
  std::vector<std::byte> arena(input_bytes(c));
  const CaseData data = map_data(c, arena);
  fill_data(c, data);
  Expected expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, data.inputs, data.states}, expected);
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    const ValueSpec& spec = c.outputs[o];
    if (spec.absent() || element_count(spec.dims) == 0) continue;
    const Tensor before = spec.in_place_of >= 0 ? data.inputs[static_cast<std::size_t>(spec.in_place_of)] : data.states[o];
    if (before.absent()) return false;
    const ExpectedOutput& e = expected.outputs[o];
    if (e.rule == Rule::bits && !std::ranges::equal(e.bytes, before.bytes())) return false;
    for (std::size_t i = 0; e.rule != Rule::bits && i < e.value.size(); ++i) {
      const double was = before.at(e.index.empty() ? static_cast<std::int64_t>(i) : e.index[i]);
      if (format_of(before.dtype()) != nullptr) {  // its codes are judged by what they decode to
        if (!(std::fabs(was - e.value[i]) <= e.bound[i])) return false;
        continue;
      }
      const double wanted = before.rounded(static_cast<double>(static_cast<float>(e.value[i])));
      if (was != wanted && !(std::isnan(was) && std::isnan(wanted))) return false;
    }
  }
  return true;
}

RunPlan run_plan(const SelftestPlan& plan, const Target& target, Of wrapper, const std::string& mutant, std::vector<const Case*> cases) {
  RunPlan run;
  run.cases = std::move(cases);
  run.targets = {target};
  run.exclusions.resize(1);
  run.selection = wrapper_selection(plan, wrapper, mutant);
  return run;
}

void run_total(const SelftestPlan& plan, const Target& target, const Mutant& m, std::vector<const Case*> cases, Fate& fate) {
  RunPlan run = run_plan(plan, target, m.of, m.name, std::move(cases));
  run.jobs = plan.jobs;
  run.reference_after = true;
  std::size_t survivors = 0;
  Journal journal("/dev/null", false, Header{}, {});
  run_cases(run, journal, [&](const Case& c, std::size_t, const CaseResult& result) {
    ++fate.ran;
    if (shows(m.sign, result.verdict)) {
      if (fate.by.empty()) fate.by = c.name, fate.text = result.verdict.text;
    } else if (!c.script && !c.graph && expects_no_change(c)) {
      ++fate.without_work;
    } else if (survivors++ == 0) {
      fate.text = c.name + " is " + status_name(result.verdict.status) + " " + result.verdict.text;
    }
  });
  fate.end = survivors == 0 ? Fate::End::killed : Fate::End::survived;
  if (survivors > 1) fate.text += ", and " + std::to_string(survivors - 1) + " more";
}

void run_to_first_kill(const SelftestPlan& plan, const Target& target, const Mutant& m, std::vector<const Case*> cases, Fate& fate) {
  RunPlan run = run_plan(plan, target, m.of, m.name, std::move(cases));
  run.stop_at_failure = true;
  if (m.sign == Sign::timeout) run.deadline_seconds = 1;
  Journal journal("/dev/null", false, Header{}, {});
  run_cases(run, journal, [&](const Case& c, std::size_t, const CaseResult& result) {
    ++fate.ran;
    if (result.verdict.status <= Status::waived) return;
    fate.end = shows(m.sign, result.verdict) ? Fate::End::killed : Fate::End::other_reason;
    fate.by = c.name;
    fate.text = result.verdict.text;
  });
}

/// The audit of a wrapper: two models, one of few layers and one of many. The same seed, so that a self-test ends as the one before.
AuditPlan audit_plan(const SelftestPlan& plan, const std::string& mutant) {
  AuditPlan audit = plan.audit;
  audit.selection.plugins = {plan.plugin_directory + "/libbackend_mutant.so"};
  audit.selection.threads = 1;
  audit.seed = 1;
  audit.models = 2;
  audit.stop_at_failure = true;
  audit.environment = {"QUERN_MUTANT_BASE=" + plan.base, "QUERN_MUTANT_NAME=" + mutant};
  return audit;
}

/// What the audit found of the wrapper: the first model that is not right. Empty: all are.
std::pair<std::string, std::string> audited(const SelftestPlan& plan, const std::string& mutant) {
  const AuditResult result = audit(audit_plan(plan, mutant), [](const AuditedDevice&, const AuditedModel&) {});
  if (result.exit_code != 0) throw std::runtime_error("the audit did not run: " + result.error);
  for (const AuditedDevice& device : result.devices)
    for (const AuditedModel& m : device.models)
      for (const Verdict* v : {&m.exact, &m.fast})
        if (v->status != Status::pass) return {"the audit of a " + m.model, std::string(status_name(v->status)) + ": " + v->text};
  return {};
}

/// Its cases pass, and the audit finds it.
void run_audited(const SelftestPlan& plan, const Target& target, const Mutant& m, std::vector<const Case*> cases, Fate& fate) {
  run_to_first_kill(plan, target, m, std::move(cases), fate);
  if (fate.end != Fate::End::survived) return;
  const auto [model, text] = audited(plan, m.name);
  if (model.empty()) return;
  const bool by_value = text.starts_with(status_name(Status::fail)) && text.find(", expected ") != std::string::npos;
  fate.end = by_value ? Fate::End::killed : Fate::End::other_reason;
  fate.by = model;
  fate.text = text;
}

Fate run_mutant(const SelftestPlan& plan, const CaseTable& table, const Target& target, const Mutant& m) {
  Fate fate;
  std::vector<const Case*> cases = cases_of(m, table);
  if (cases.empty()) {
    fate.end = Fate::End::unmatched;
    return fate;
  }
  try {
    if (m.sign == Sign::no_device) {
      const Survey survey = find_targets(wrapper_selection(plan, m.of, m.name));
      fate.end = survey.exit_code == 3 ? Fate::End::killed : Fate::End::survived;
      fate.by = "the search for devices";
      fate.text = survey.error;
    } else if (m.sign == Sign::audit) {
      run_audited(plan, target, m, std::move(cases), fate);
    } else if (m.total) {
      run_total(plan, target, m, std::move(cases), fate);
    } else {
      run_to_first_kill(plan, target, m, std::move(cases), fate);
    }
  } catch (const std::exception& error) {
    fate.end = Fate::End::broken;
    fate.text = error.what();
  }
  return fate;
}

}  // namespace

std::vector<Fate> run_mutants(const SelftestPlan& plan, const CaseTable& table, const std::vector<Mutant>& chosen) {
  Target targets[std::size(wrappers)];
  const auto target_of = [&](const Mutant& m) -> Target& { return targets[static_cast<int>(m.of)]; };
  for (const Of wrapper : wrappers)
    if (std::ranges::any_of(chosen, [&](const Mutant& m) { return m.of == wrapper; }))
      targets[static_cast<int>(wrapper)] = unspoiled_target(plan, wrapper);
  std::vector<Fate> fates(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i)  // these use every job themselves
    if (chosen[i].total) fates[i] = run_mutant(plan, table, target_of(chosen[i]), chosen[i]);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (std::uint32_t j = 0; j < plan.jobs; ++j)
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < chosen.size(); i = next++)
        if (!chosen[i].total) fates[i] = run_mutant(plan, table, target_of(chosen[i]), chosen[i]);
    });
  for (std::thread& w : workers) w.join();
  return fates;
}

std::vector<FalseKill> run_unspoiled(const SelftestPlan& plan, const CaseTable& table, const std::vector<Mutant>& chosen,
                                     const std::vector<Fate>& fates, std::size_t& checked) {
  std::vector<FalseKill> problems;
  if (std::ranges::any_of(chosen, [](const Mutant& m) { return m.sign == Sign::audit; })) {
    ++checked;
    if (const auto [model, text] = audited(plan, "none"); !model.empty()) problems.push_back({model, text});
  }
  for (const Of wrapper : wrappers) {
    std::set<const Case*> killers;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (const Case* c = table.find(fates[i].by); c != nullptr && chosen[i].of == wrapper) killers.insert(c);
    if (killers.empty()) continue;
    const Target target = unspoiled_target(plan, wrapper);
    RunPlan run = run_plan(plan, target, wrapper, "none", {killers.begin(), killers.end()});
    run.jobs = plan.jobs;
    Journal journal("/dev/null", false, Header{}, {});
    run_cases(run, journal, [&](const Case& c, std::size_t, const CaseResult& result) {
      ++checked;
      if (result.verdict.status > Status::waived) problems.push_back({c.name, result.verdict.text});
    });
  }
  return problems;
}

}  // namespace quern::conformance
