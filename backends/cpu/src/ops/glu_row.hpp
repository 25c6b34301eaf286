// What the attributes of a glu say to the vector kernel.
#pragma once

#include "../kernel.hpp"
#include "../simd/vectors.hpp"

namespace quern::cpu {

/// Without the rows.
inline GluRow glu_row(const Call& glu) noexcept {
  GluRow row{};
  row.kind = glu.integer(QUERN_KEY_KIND);
  row.alpha = static_cast<float>(glu.real(QUERN_KEY_ALPHA));
  row.limit = static_cast<float>(glu.real(QUERN_KEY_LIMIT));
  return row;
}

}  // namespace quern::cpu
