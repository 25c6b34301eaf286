// f32 products of many tokens through OpenBLAS, where it is installed.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

constexpr std::int64_t openblas_min_tokens = 32;

/// Does the library fit this call, whose shapes were checked? It may load the library.
Verdict openblas_verdict(const Call& call);
/// Only after a yes, and for openblas_min_tokens or more.
void multiply_by_openblas(const Call& call, Context& context) noexcept;

}  // namespace quern::cpu
