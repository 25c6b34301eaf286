// Columns of an operand put in an order in front of products, by an index that names each column once, and by one that names a column twice and another
// never: what stands for the first in a backend's kernels is wrong for the second. Kinds of layers with orders are in layers/act_order.cpp.
#include "graphs/decoder_parts.hpp"
#include "ops/given.hpp"

#include <vector>

namespace quern::conformance {
namespace {

constexpr std::int64_t wide = 256, ffn = 512;

/// Columns in steps of 77, which has no divisor in common with n; `twice`: the last is the first again.
int in_order(GraphBuilder& g, const std::string& name, int x, std::int64_t n, bool twice) {
  std::vector<std::int64_t> index;
  for (std::int64_t j = 0; j < n; ++j) index.push_back(j * 77 % n);
  if (twice) index.back() = index.front();
  const int order = g.input(name + ".order", given(constant(QUERN_I32, {n}), twice ? "twice" : "once", index));
  return g.node(QUERN_OP_TAKE, name, {x, order}, {rows_dim, n});
}

void add_case(CaseSink& sink, bool twice) {
  GraphBuilder g(70, {3, 1, 70});
  g.allow(QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16);
  const auto product = [&](const std::string& name, int x, std::int64_t n, std::int64_t k) {
    return g.node(QUERN_OP_MATMUL, name, {x, g.weight(name + ".weight", QUERN_Q4_Z128, {n, k})}, {rows_dim, n});
  };
  const int x = g.input("x", input(QUERN_F32, {rows_dim, wide}));
  const int normed = g.node(QUERN_OP_RMS_NORM, "norm", {x, add_norm_weight(g, "norm.weight", wide, QUERN_Q4_Z128)}, {rows_dim, wide},
                            {{QUERN_KEY_EPSILON, 1e-5}});
  const int ordered = in_order(g, "in_order", normed, wide, twice);
  const int active =
      g.node(QUERN_OP_GLU, "active", {product("gate", ordered, ffn, wide), product("up", ordered, ffn, wide)}, {rows_dim, ffn});
  g.output(product("down", in_order(g, "active_in_order", active, ffn, twice), wide, ffn));
  sink.add_graph(std::string("graphs.orders.") + (twice ? "twice" : "once"), g.finish(Profile::quick, level_inference));
}

void generate(CaseSink& sink) {
  add_case(sink, false);
  add_case(sink, true);
}

}  // namespace

extern const Family orders_family;
const Family orders_family = {"orders", generate};

}  // namespace quern::conformance
