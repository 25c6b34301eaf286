// The tables of the fusions.
#pragma once

#include "fusion.hpp"

namespace quern::cpu {

extern const std::span<const Fusion> matmul_glu_fusions;
extern const std::span<const Fusion> matmul_id_glu_fusions;
extern const std::span<const Fusion> norm_matmul_fusions;
extern const std::span<const Fusion> matmul_add_fusions;
extern const std::span<const Fusion> rope_kv_write_fusions;

}  // namespace quern::cpu
