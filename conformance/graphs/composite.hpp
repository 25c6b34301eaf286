// Short ways to say small graphs, for the files of composites.
#pragma once

#include "graphs/decoder_parts.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quern::conformance::composite {

inline constexpr std::int64_t wide = 256, ffn = 512, heads = 4, kv_heads = 2, head = 64, vocab = 512;
inline constexpr double epsilon = 1e-5;
inline constexpr std::uint32_t conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;  // as sessions send them
inline constexpr ModelShape shape = {"h256", wide, ffn, heads, kv_heads, head, vocab, 1, false, 0, epsilon, false};

/// Short ways to add what composites are made of.
struct Composite {
  GraphBuilder graph;
  quern_dtype format;
  int counter = 0;

  Composite(quern_dtype weights, std::int64_t rows) : graph(rows), format(weights) { graph.allow(conversions); }

  std::string next(const char* stem) { return stem + std::to_string(counter++); }
  int rows(std::int64_t n, const char* name = "x") { return graph.input(next(name), input(QUERN_F32, {rows_dim, n})); }
  int norm(int x) {
    return graph.node(QUERN_OP_RMS_NORM, next("norm"), {x, add_norm_weight(graph, next("weight"), wide, format)}, {rows_dim, wide},
                      {{QUERN_KEY_EPSILON, epsilon}});
  }
  int matrix(std::int64_t n, std::int64_t k, quern_dtype dtype) { return graph.weight(next("matrix"), dtype, {n, k}); }
  int product(int a, std::int64_t n, std::int64_t k = wide, quern_dtype dtype = QUERN_DTYPE_NONE) {
    return graph.node(QUERN_OP_MATMUL, next("product"), {a, matrix(n, k, dtype == QUERN_DTYPE_NONE ? format : dtype)}, {rows_dim, n});
  }
  int product_with_bias(int a, std::int64_t n) {
    return graph.node(QUERN_OP_MATMUL, next("product"), {a, matrix(n, wide, format), graph.weight(next("bias"), QUERN_F32, {n})},
                      {rows_dim, n});
  }
  int add(int a, int b, std::int64_t n = wide, std::vector<Attribute> attributes = {}) {
    return graph.node(QUERN_OP_ADD, next("sum"), {a, b}, {rows_dim, n}, std::move(attributes));
  }
  int glu(int gate, int up, std::vector<Attribute> attributes = {}) {
    return graph.node(QUERN_OP_GLU, next("glu"), {gate, up}, {rows_dim, ffn}, std::move(attributes));
  }
  void output(int value) { graph.output(value); }
  /// a += b in the memory of a; returns the sum.
  int add_in_place(int a, int b) {
    const int sum = graph.in_place(next("sum"), a);
    graph.node_into(QUERN_OP_ADD, {a, b}, {sum});
    return sum;
  }
};

using Build = std::function<void(Composite&)>;
struct Pattern {
  const char* name;
  Build build;
  bool every_format = false;  // else the formats that stand for each kind of kernel
  bool by_rows = false;       // in quick with one row and with many too
};

/// Values that are written in place while a fused kernel might still read them (overwritten_patterns.cpp).
void add_overwritten_patterns(std::vector<Pattern>& patterns);

}  // namespace quern::conformance::composite
