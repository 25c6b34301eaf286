// Runs one small product and one tiny model on every device that may be used, and compares both with what they must give.
#pragma once

#include "output.hpp"
#include "settings.hpp"

#include "quern.h"

#include <string>
#include <vector>

namespace quern::cli {

struct TriedDevice {
  std::string device, description;
  std::string trouble;       // why something could not be run; empty: all ran
  std::string kernel;        // of the product
  std::string shared;        // what of the model crosses to other devices, in words; empty: this one has all of it
  double product_share = 0;  // worst error of the product as a share of its bound
  double model_nats = 0;     // worst error of the model's likelihoods
  bool right() const noexcept;
};

/// Each device on a runtime of its own, with the settings but for the device, and with the CPU behind it where no backend is demanded. The model's file lies in a new folder below $TMPDIR, or
/// else /tmp, which is gone at the end.
std::vector<TriedDevice> try_devices(const Settings& settings, const quern_device_list* devices);

/// The verdict and a line a device, with the marks of the load report.
std::string tried_words(const std::vector<TriedDevice>& tried);
Json tried_json(const std::vector<TriedDevice>& tried);

}  // namespace quern::cli
