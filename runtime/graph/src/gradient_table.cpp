// From an op's id to its gradient. A row of ops.def that names a gradient and has none here does not link.
#include "gradient_call.hpp"

#include <string_view>

namespace quern::graph {
namespace {

struct GradientRow {
  std::uint32_t id;
  Gradient gradient;
};

/// A function of a row without a gradient is declared and never named, so it needs no definition.
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) \
  constexpr Gradient name##_gradient() { \
    if constexpr (std::string_view(gradient) != "-") return gradients::name; \
    else return nullptr; \
  }
#include "quern/ops.def"
#undef QUERN_OP

constexpr GradientRow gradient_rows[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, name##_gradient()},
#include "quern/ops.def"
#undef QUERN_OP
};

}  // namespace

Gradient find_gradient(std::uint32_t op) {
  for (const GradientRow& row : gradient_rows)
    if (row.id == op) return row.gradient;
  return nullptr;
}

}  // namespace quern::graph
