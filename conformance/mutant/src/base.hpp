// The good plugin underneath: loaded by dlopen, driven through the public ABI alone.
#pragma once

#include "quern/quern_plugin.hpp"

#include <memory>
#include <string>

namespace quern::mutant {

class Base {
 public:
  /// Loads `path` and asks for its table. Throws sdk::Failure naming the file. Never unloaded: a plugin may not be.
  static std::shared_ptr<const Base> open(const std::string& path);

  const quern_plugin_api& api() const noexcept { return api_; }

 private:
  quern_plugin_api api_ = sdk::make_api();
};

}  // namespace quern::mutant
