// What NVRTC is told, at build time and at run time alike.
#pragma once

#include <string>
#include <vector>

namespace quern::cuda {

// No --use_fast_math: exact numerics need IEEE division and roots; hot kernels ask for fast functions by name.
inline std::vector<std::string> compile_options() {
  return {"--std=c++17", "--device-as-default-execution-space", "--extra-device-vectorization"};
}

}  // namespace quern::cuda
