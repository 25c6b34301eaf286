// As params.h, of the kernels for cooperative matrices.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace quern::vulkan {
using uint = std::uint32_t;
using std::uint64_t;
#endif

struct GemmParams {  // a: rows of f16, each times a power of two that row_scale undoes; the rest as of GemvParams
  uint64_t a, row_scale, b, bias, c, y;
  uint m, n, k;
  int bias_dtype;
};

#ifdef __cplusplus
}  // namespace quern::vulkan
#endif
