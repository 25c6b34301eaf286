// S2: asks a plugin for its function table and checks the answer.
#pragma once

#include "inspect.hpp"
#include "verdict.hpp"

#include <string>

namespace quern::loader {

/// A quern_error with room for its text.
class ErrorBuffer {
 public:
  ErrorBuffer();
  ErrorBuffer(const ErrorBuffer&) = delete;
  ErrorBuffer& operator=(const ErrorBuffer&) = delete;
  quern_error* get() { return &error_; }

  /// "out of memory (status 4): the plugin's text", for the status that the call returned.
  std::string words(quern_status status) const;
  /// The plugin's text alone; empty if it gave none.
  std::string text() const;

 private:
  quern_error error_{};
  char text_[1024] = {};
};

/// "driver missing" for QUERN_DRIVER_MISSING, ...
std::string status_words(quern_status status);

/// A copy of a plugin's string, cut at 4 KiB; empty for a null pointer.
std::string copy_string(quern_string text);

/// Calls the entry and fills `api`; what the plugin does not have is null. expected_id empty: any. Not ok:
/// `api` must not be used.
Verdict negotiate(const std::string& path, quern_plugin_query_fn entry, const std::string& expected_id, const HostFacts& host,
                  quern_plugin_api& api);

}  // namespace quern::loader
