// Drives a plugin through sessions of libquern in a program of another name, and compares what they compute with f64.
//
// What a case of the suite shows, a plugin can look at: the program's name, the seed, names of nodes, the size of plans. Here nothing of it is
// the suite's: the program is a copy of audit/session.cpp under another name, models, texts and shapes are drawn anew, and the graphs are the
// runtime's own.
#pragma once

#include "cli/options.hpp"
#include "judge/verdict.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quern::conformance {

struct AuditPlan {
  Selection selection;
  std::uint64_t seed = 0;
  std::uint32_t models = 6;
  std::string program;  // file of the session program
  std::string library;  // libquern.so.1
  bool stop_at_failure = false;
  std::vector<std::string> environment;  // besides that of this process
};

struct AuditedModel {
  std::string model;    // in words
  Verdict exact, fast;  // worst: share of what is allowed
};

struct AuditedDevice {
  std::string name, description, device_class;
  std::vector<AuditedModel> models;
  std::string host_work;  // where a device that is no processor of the host had its work done there: how that shows; else empty
  bool green() const;
};

struct AuditResult {
  std::string program;  // the name that the sessions had
  std::vector<AuditedDevice> devices;
  std::vector<std::string> left_out;  // devices that were not audited, with the reason
  int exit_code = 0;                  // 2, 3 where there is nothing to audit; `error` says why
  std::string error;
};

/// `told` is called for each model that has ended. Throws std::system_error where no process or file can be made.
AuditResult audit(const AuditPlan& plan, const std::function<void(const AuditedDevice&, const AuditedModel&)>& told);

/// Where session program and library lie: in the build tree as where they are installed. Throws UsageError with the folders where they are not.
void find_session_program(AuditPlan& plan);

}  // namespace quern::conformance
