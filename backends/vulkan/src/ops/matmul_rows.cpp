// See matmul_rows.hpp.
#include "matmul_rows.hpp"

#include <algorithm>

namespace quern::vulkan {

void launch_matmul_rows(MatmulParams& p, const Tensor& a, const Tensor& b, std::int64_t tile, bool ids, Launcher& launcher) {
  constexpr std::int64_t rows_a_subgroup = 4;  // tile_n of the kernel
  const std::uint32_t threads = launcher.facts().software() ? 8 : 128;
  const std::int64_t subgroups = std::max<std::int64_t>(1, threads / std::max<std::uint32_t>(1, launcher.facts().subgroup));
  const std::int64_t rows = rows_a_subgroup * subgroups;
  launcher.launch("matmul", threads,
                  {std::min<std::int64_t>((p.n + rows - 1) / rows, 65535), std::min<std::int64_t>((p.m + tile - 1) / tile, 65535),
                   std::min<std::int64_t>(p.batch, 65535)},
                  p,
                  {static_cast<std::int32_t>(b.dtype), static_cast<std::int32_t>(a.dtype), static_cast<std::int32_t>(tile), ids ? 1 : 0,
                   p.k % 16 != 0 ? 1 : 0, b.packed_layout ? 1 : 0});
}

}  // namespace quern::vulkan
