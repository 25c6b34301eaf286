// y = x / (1 + |x|).
#include "../op_call.hpp"
#include "shapes.hpp"

namespace quern::graph::rules {

void softsign(OpCall& call) { unary_rule(call); }

}  // namespace quern::graph::rules
