// Runs each deliberately broken plugin on the cases that must find it, and the unspoiled wrapper on those that did.
#pragma once

#include "audit/audit.hpp"
#include "case_table/case_table.hpp"
#include "selftest/mutant_table.hpp"
#include "worker/target.hpp"

#include <string>
#include <vector>

namespace quern::conformance {

/// How a mutant fared.
struct Fate {
  enum class End {
    killed,
    survived,      // every case passed; total mutants: some case passed that has something to compute
    other_reason,  // a case failed, with another sign than the table's
    unmatched,     // its globs match no case
    broken,        // the wrapper did not start
  };
  End end = End::survived;
  std::string by;    // killed: the first case
  std::string text;  // what that case said, or what else happened
  std::size_t ran = 0;
  std::size_t without_work = 0;  // total mutants: cases that expect their outputs as they were, so that doing nothing is right
};

struct SelftestPlan {
  std::string plugin_directory;  // of libbackend_mutant.so and libbackend_mutant_device.so
  std::string base;              // the good plugin's file
  std::uint32_t jobs = 1;
  AuditPlan audit;  // where its program and libquern are
};

/// One fate a mutant, in order. Throws std::runtime_error where the wrappers cannot be loaded at all.
std::vector<Fate> run_mutants(const SelftestPlan& plan, const CaseTable& table, const std::vector<Mutant>& chosen);

/// A case that the unspoiled wrapper failed: its kill means nothing.
struct FalseKill {
  std::string name, text;
};
/// Runs the cases that killed, each on the wrapper that it killed. `checked` counts them.
std::vector<FalseKill> run_unspoiled(const SelftestPlan& plan, const CaseTable& table, const std::vector<Mutant>& chosen,
                                     const std::vector<Fate>& fates, std::size_t& checked);

}  // namespace quern::conformance
