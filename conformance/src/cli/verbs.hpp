// The verbs. Each returns the exit code.
#pragma once

#include "cli/options.hpp"

namespace quern::conformance {

int run_verb(const Options& options);
int list_verb(const Options& options);
int report_verb(const Options& options);
int verify_verb(const Options& options);
int bench_verb(const Options& options);
int audit_verb(const Options& options);
int selftest_verb(const Options& options);
int kernels_verb(const Options& options);

}  // namespace quern::conformance
