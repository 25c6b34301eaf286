// What all_gather and reduce_scatter have in common.
#pragma once

#include "../op_call.hpp"

namespace quern::graph {

/// `whole` is one `part` a rank, one after another along the axis.
inline void ranks_rule(const OpCall& call, const Shape& part, const Shape& whole) {
  const std::size_t axis = call.axis(QUERN_KEY_AXIS, 0);
  bool fits = part.size() == whole.size();
  for (std::size_t d = 0; fits && d < part.size(); ++d) {
    const bool divides = part[d].symbol == 0 && whole[d].symbol == 0 && part[d].size > 0 && whole[d].size % part[d].size == 0;
    fits = d == axis ? divides : part[d] == whole[d];
  }
  if (!fits)
    call.fail("the part of a rank is ", call.text(part), " and the whole ", call.text(whole), "; they must be equal but for axis ", axis,
              ", where the whole is a multiple");
}

}  // namespace quern::graph
