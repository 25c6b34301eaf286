// See simple.hpp.
#include "abi/simple.hpp"

namespace quern::conformance::abi {
namespace {

Graph copy_graph(std::int64_t count, std::uint32_t& x, std::uint32_t& y) {
  Graph g;
  x = g.input({count});
  y = g.output({count});
  g.copy(x, y);
  return g;
}

Graph two_nodes(std::int64_t rows, std::uint32_t& x, std::uint32_t& b, std::uint32_t& z) {
  Graph g;
  x = g.input({rows, 4});
  b = g.constant({3, 4});
  const std::uint32_t middle = g.internal({rows, 4});
  z = g.output({rows, 3});
  g.copy(x, middle);
  g.matmul(middle, b, z);
  return g;
}

}  // namespace

OneCopy::OneCopy(DeviceRef device, Queue& queue, std::int64_t count)
    : graph(copy_graph(count, x, y)),
      at_x(device, queue, counting(static_cast<std::size_t>(count), 1)),
      at_y(device, queue, std::vector<float>(static_cast<std::size_t>(count), -1)),
      plan(device, graph.get()),
      ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}}) {}

TwoNodes::TwoNodes(DeviceRef device, Queue& queue, std::int64_t row_count)
    : rows(row_count),
      graph(two_nodes(row_count, x, b, z)),
      at_x(device, queue, counting(static_cast<std::size_t>(rows) * 4, -7)),
      at_b(device, queue, counting(12, -5)),
      at_z(device, queue, std::vector<float>(static_cast<std::size_t>(rows) * 3, -1)),
      plan(device, graph.get()),
      ready(device, queue, plan, {{x, at_x.span()}, {b, at_b.span()}, {z, at_z.span()}}) {}

std::vector<float> TwoNodes::expected() const {
  return product(counting(static_cast<std::size_t>(rows) * 4, -7), counting(12, -5), rows, 3, 4);
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<float> y(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(j * k + l)];
      y[static_cast<std::size_t>(i * n + j)] = sum;
    }
  return y;
}

}  // namespace quern::conformance::abi
