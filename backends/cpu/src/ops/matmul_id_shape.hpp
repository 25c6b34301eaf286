// What every kernel of matmul_id asks of the shapes of a call.
#pragma once

#include "../kernel.hpp"

#include <limits>
#include <utility>

namespace quern::cpu {

/// a [t, used or 1, k], b [experts, n, k], id [t, used], y [t, used, n]; dtypes of a, id and y. That of b is the kernel's.
inline Verdict check_matmul_id(const OpCall& call) {
  const TensorView &a = call.input(0), &b = call.input(1), &id = call.input(2), &y = call.output(0);
  if (Verdict v = check_floats(a, "a"); !v) return v;
  if (Verdict v = check_dtype(id, "id", QUERN_I32); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  for (const auto& [view, name] : {std::pair{&a, "a"}, std::pair{&b, "b"}, std::pair{&y, "y"}})
    if (Verdict v = check_rank(*view, name, 3); !v) return v;
  if (Verdict v = check_rank(id, "id", 2); !v) return v;
  if (Verdict v = check_dim(id, "id", 0, a.dims[0], "the tokens of a"); !v) return v;
  if (a.dims[1] != 1 && a.dims[1] != id.dims[1])
    return Verdict::invalid(concat("a is ", describe(a), " and id is ", describe(id), "; dimension 1 of a is 1 or that of id"));
  if (Verdict v = check_dim(b, "b", 2, a.dims[2], "the row length of a"); !v) return v;
  if (Verdict v = check_dim(y, "y", 0, a.dims[0], "the tokens of a"); !v) return v;
  if (Verdict v = check_dim(y, "y", 1, id.dims[1], "the experts a token uses"); !v) return v;
  if (Verdict v = check_dim(y, "y", 2, b.dims[1], "the rows of an expert"); !v) return v;
  if (a.dims[2] > std::numeric_limits<std::int32_t>::max())
    return Verdict::no(concat("a is ", describe(a), "; its rows are shorter than 2^31"));
  return Verdict::yes();
}

}  // namespace quern::cpu
