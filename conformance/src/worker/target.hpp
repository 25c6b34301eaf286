// The devices that a call tests, found without loading a plugin into this process.
#pragma once

#include "cli/options.hpp"

#include "quern/quern_device.h"

#include <string>
#include <string_view>
#include <vector>

namespace quern::conformance {

/// One column of the matrix.
struct Target {
  std::string label;  // "cpu:0"
  std::string plugin_id, path, version, build;
  std::string device_name, architecture, driver;
  std::uint32_t device_class = 0;
  std::string sha256;  // of the plugin's file; empty where it is no file

  /// The host's processors do its work, as those of a driver in software: processes share it as they share processors and host memory.
  bool runs_on_processors() const noexcept { return device_class == QUERN_DEVICE_CPU || device_class == QUERN_DEVICE_SOFTWARE; }
  /// How many times a case's deadline it has: a driver in software compiles and computes on processors that all jobs share.
  double patience() const noexcept { return device_class == QUERN_DEVICE_SOFTWARE ? 4 : 1; }
};

/// Whether `ftz` is among the words of a device's architecture: its kernels may take f32 subnormals for zeros (plugin-api/CONTRACT.md, C23).
bool declares_ftz(std::string_view architecture) noexcept;

struct Survey {
  std::vector<Target> targets;
  std::vector<std::string> left_out;  // "vulkan:0 (llvmpipe): a software device; name it with --device vulkan:0"
  int exit_code = 0;                  // 2 or 3 where there is nothing to test; `error` then says why
  std::string error;
};

/// Starts a child (the hidden verb `survey`) that asks the loader. Without a demand: every device of every plugin, software ones
/// left out. Throws std::system_error if the child cannot be started.
Survey find_targets(const Selection& selection);

/// The hidden verb: writes the survey as one line to descriptor 4. Returns the exit code.
int survey_main(const Selection& selection);

}  // namespace quern::conformance
