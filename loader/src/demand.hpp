// What the user demands or forbids, as one rule over plugin ids.
#pragma once

#include "device_name.hpp"
#include "quern/loader/loader.hpp"
#include "verdict.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::loader {

class Demand {
 public:
  /// Throws Error(QUERN_INVALID_ARGUMENT) if the device's name cannot be read.
  explicit Demand(const Settings& settings);

  /// The ids that may be opened, in order; empty: all.
  const std::vector<std::string>& ids() const { return ids_; }
  const std::optional<DeviceName>& device() const { return device_; }

  /// The user listed backends beside the device, so that others than the device's may serve too.
  bool lists_backends() const { return lists_backends_; }

  /// Anything that the user asked for and must get, or an error.
  bool is_made() const { return !ids_.empty() || device_.has_value(); }

  /// Why a plugin of this id may not be opened; ok if it may. `name`: the file, for the text.
  Verdict gate(const std::string& id, const std::string& name) const;

  /// Two wishes that exclude each other, naming both; empty if none do.
  const std::string& contradiction() const { return contradiction_; }

  /// "QUERN_BACKEND=cuda,cpu", "QUERN_DEVICE=cuda:0", both joined by " and ".
  std::string words() const;

 private:
  const Settings& settings_;
  std::vector<std::string> ids_;
  std::optional<DeviceName> device_;
  bool lists_backends_ = false;
  std::string contradiction_;
};

}  // namespace quern::loader
