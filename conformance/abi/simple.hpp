// The graphs that many scripts use, with their memory: one copy, and rows through a product.
#pragma once

#include "abi/objects.hpp"

namespace quern::conformance::abi {

/// y = x over `count` floats, prepared. x holds 1, 2, 3, ..., y -1.
struct OneCopy {
  OneCopy(DeviceRef device, Queue& queue, std::int64_t count = 4);

  Graph graph;
  std::uint32_t x, y;
  Floats at_x, at_y;
  Plan plan;
  Ready ready;
};

/// z = (copy of x) b^T through an internal value: needs scratch on most devices. x [rows, 4], b [3, 4], whole numbers.
struct TwoNodes {
  TwoNodes(DeviceRef device, Queue& queue, std::int64_t rows = 5);
  std::vector<float> expected() const;  // exact: sums of few small whole numbers

  std::int64_t rows;
  Graph graph;
  std::uint32_t x, b, z;
  Floats at_x, at_b, at_z;
  Plan plan;
  Ready ready;
};

/// a [m, k] b[n, k]^T in whole numbers that f32 holds.
std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace quern::conformance::abi
