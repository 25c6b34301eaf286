// The kernels that were built in: cubins by architecture, and the sources for other architectures. Made by the build.
#pragma once

#include <cstddef>
#include <string_view>

namespace quern::cuda {

struct Image {
  std::string_view unit;          // "gemv"
  std::string_view architecture;  // "sm_90a"
  const unsigned char* data;
  std::size_t bytes;
};
struct Source {
  std::string_view name;  // "gemv.cu", "prelude.cuh"
  const char* data;
  std::size_t bytes;
};

/// Lists that live as long as the library.
extern const Image* const built_in_images;
extern const std::size_t built_in_image_count;
extern const Source* const kernel_sources;
extern const std::size_t kernel_source_count;

}  // namespace quern::cuda
