// What a device can copy and multiply, measured now by its own ops: the denominators of the bench where it does not run on the processor.
#pragma once

#include "memory.hpp"

#include "quern/quern_formats.h"

#include <cstdint>

namespace quern::runtime {

struct DevicePeaks {
  double bytes_per_second = 0;          // of a copy, read and written, or of a product with one row, read
  double multiply_adds_per_second = 0;  // of the fastest product
};

/// What the peaks have to be comparable with.
struct PeakConditions {
  std::uint64_t weight_bytes = 0;   // caches hold as much of what is measured as of the weights
  quern_dtype weights = QUERN_F16;  // their format; f16 is measured too
  std::uint32_t conversions = 0;    // QUERN_CONVERT_... that the products allow
  std::uint64_t limit = 0;          // most bytes of the device to take, 0: no limit
};

/// Takes memory of the device and frees it. What does not fit, or what the device has no op for, is not measured; a peak of which nothing
/// was is 0. Throws Error where the device fails.
DevicePeaks measure_device_peaks(const std::shared_ptr<loader::Device>& device, const PeakConditions& conditions);

}  // namespace quern::runtime
