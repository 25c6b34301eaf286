// What a plugin may not change of its process [C9]: environment, signal handlers, directory, locale, creation mask, rounding mode.
//
// Taken before the plugin is loaded and after each case, so that a change is seen however early in its life a plugin makes it.
#pragma once

#include <map>
#include <string>

namespace quern::conformance {

class ProcessTraces {
 public:
  ProcessTraces();  // as they are now
  /// Empty, or what is another way than before: "the working directory was /a and is /". Then takes over what is now.
  std::string changed();

 private:
  std::map<std::string, std::string> parts_;
};

}  // namespace quern::conformance
