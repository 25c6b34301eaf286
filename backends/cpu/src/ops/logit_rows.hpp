// Checks that the ops over rows of logits share.
#pragma once

#include "../kernel.hpp"

namespace quern::cpu {

/// x [s, n] and y of its shape: f32 with packed rows.
inline Verdict check_logits(const TensorView& x, const TensorView& y) {
  if (Verdict v = check_dtype(x, "x", QUERN_F32); !v) return v;
  if (Verdict v = check_dtype(y, "y", QUERN_F32); !v) return v;
  if (Verdict v = check_rank(x, "x", 2); !v) return v;
  if (Verdict v = check_same_shape(x, "x", y, "y"); !v) return v;
  if (!rows_are_packed(x) || !rows_are_packed(y)) return Verdict::no("the rows of x and y are not packed");
  return Verdict::yes();
}

/// One number for each of `rows` rows.
inline Verdict check_row_vector(const TensorView& view, const char* name, quern_dtype dtype, std::int64_t rows,
                                const char* of = "the rows of x") {
  if (Verdict v = check_dtype(view, name, dtype); !v) return v;
  if (Verdict v = check_rank(view, name, 1); !v) return v;
  return check_dim(view, name, 0, rows, of);
}

}  // namespace quern::cpu
