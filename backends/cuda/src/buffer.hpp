// Device memory that the host holds.
#pragma once

#include "gpu.hpp"

#include "quern/quern_device.h"

struct quern_buffer {
  quern_device& device;
  quern::cuda::Gpu& gpu;
  quern::cuda::DevicePointer memory = 0;
  std::uint64_t bytes = 0;
};
