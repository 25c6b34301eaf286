// S1 to S3 of one plugin in this process: the body of the helper, and of in-process probing.
#pragma once

#include "host.hpp"
#include "inspect.hpp"
#include "verdict.hpp"

#include <functional>
#include <string>

namespace quern::loader {

struct ExamineRequest {
  std::string path;
  quern_plugin_query_fn registered = nullptr;  // instead of the file
  HostFacts facts;
  HostOptions options;
  bool measure = false;   // copy bandwidths, for ties
  bool thorough = false;  // open devices where the probe does not say which failed; makes contexts
  LogSink log;
  std::function<void(Stage)> entering;  // told before each stage, so that a crash can be placed
};

/// Never throws for a plugin's fault. `found`: what S0 read from the file.
Examination examine(const ExamineRequest& request, const Inspection& found);

}  // namespace quern::loader
