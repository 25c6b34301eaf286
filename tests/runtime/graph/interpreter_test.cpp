// The oracle itself, on cases whose answers are plain to see.
#include "reference_interpreter.hpp"
#include "rule_cases.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::test {
namespace {

using Numbers = std::vector<double>;

TEST(ReferenceInterpreter, RunsOnlyTheExactExtent) {
  Bench b;
  const ValueId x = b.f32({b.t, 2});
  const ValueId y = ops::scale(b.g, x, 10);
  ReferenceInterpreter run(b.g);
  run.extent(b.t.symbol, 2);
  run.set(x, Numbers{1, 2, 3, 4});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{10, 20, 30, 40}));
}

TEST(ReferenceInterpreter, ViewsShareMemory) {
  Bench b;
  const ValueId x = b.f32({2, 3});
  const ValueId y = ops::copy(b.g, b.g.view(x, {3, 2}, {4, 12}, 0));
  ReferenceInterpreter run(b.g);
  run.set(x, Numbers{1, 2, 3, 4, 5, 6});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{1, 4, 2, 5, 3, 6}));
}

TEST(ReferenceInterpreter, BroadcastsAlongBothKindsOfDimension) {
  Bench b;
  const ValueId x = b.f32({2, 2}), column = b.f32({2, 1}), row = b.f32({2});
  const ValueId y = ops::mul(b.g, ops::add(b.g, x, column), row);
  ReferenceInterpreter run(b.g);
  run.set(x, Numbers{1, 2, 3, 4});
  run.set(column, Numbers{10, 20});
  run.set(row, Numbers{1, 2});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{11, 24, 23, 48}));
}

TEST(ReferenceInterpreter, ProductsTransposeAndGroup) {
  Bench b;
  const ValueId x = b.f32({2, 1, 2}), w = b.f32({1, 2, 2});
  const ValueId y = ops::matmul(b.g, x, w);
  const ValueId z = ops::matmul(b.g, x, w, no_value, no_value, {.transpose_b = true});
  ReferenceInterpreter run(b.g);
  run.set(x, Numbers{1, 0, 0, 1});
  run.set(w, Numbers{1, 2, 3, 4});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(run.get(z), (Numbers{1, 2, 3, 4}));
}

TEST(ReferenceInterpreter, ARotationByZeroChangesNothingAndItsInverseUndoesIt) {
  Bench b;
  const ValueId table = ops::rope_table(b.g, {8, 2, 2}, no_value, no_value, {.base = 100});
  const ValueId x = b.f32({2, 1, 4}), position = b.i32({2});
  const ValueId y = ops::rope(b.g, x, position, table, {.mode = 1});
  const ValueId back = ops::rope(b.g, y, position, table, {.mode = 1, .inverse = true, .sections = {}});
  ReferenceInterpreter run(b.g);
  run.set(x, Numbers{1, 2, 3, 4, 1, 2, 3, 4});
  run.set(position, std::vector<std::int32_t>{0, 5});
  run.run();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(run.get(y)[i], run.get(x)[i]);
  EXPECT_NEAR(run.get(y)[4], std::cos(5.0) - 3 * std::sin(5.0), 1e-12);  // the pair of element 0 is element 2
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(run.get(back)[i], run.get(x)[i], 1e-12);
  run.set(position, std::vector<std::int32_t>{0, 8});
  run.run();
  EXPECT_TRUE(run.index_fault());
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(run.get(y)[i], 0);
}

TEST(ReferenceInterpreter, AttentionOverOneKeyIsItsValueAndHiddenSlotsDoNotCount) {
  Bench b;
  const ValueId q = b.f32({2, 2, 1}), cache = b.state(QUERN_F32, {2, 1, 2, 1}), table = b.i32({2, 1}), slot = b.i32({2});
  const ValueId position = b.i32({2});
  ops::kv_write(b.g, b.f32({2, 1, 1}), table, slot, position, cache);
  const ValueId y = ops::attention(
      b.g, {.q = q, .k_cache = cache, .v_cache = cache, .block_table = table, .row_slot = slot, .position = position}, {.scale = 1});
  ReferenceInterpreter run(b.g);
  run.set(cache, Numbers(4, NAN));
  run.set(table, std::vector<std::int32_t>{1, 0});
  run.set(slot, std::vector<std::int32_t>{0, 1});
  run.set(position, std::vector<std::int32_t>{0, -1});
  run.set(3 + 2, Numbers{7, 8});  // the rows written: the value after position
  run.set(q, Numbers{1, 2, 3, 4});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{7, 7, 0, 0}));
}

TEST(ReferenceInterpreter, SoftmaxKnowsWindowsAndEmptyRows) {
  Bench b;
  const ValueId x = b.f32({3, 3}), mask = b.f32({3, 3});
  const ValueId y = ops::softmax(b.g, x, mask, no_value, {.causal = true, .window = 1});
  ReferenceInterpreter run(b.g);
  run.set(x, Numbers(9, 5));
  run.set(mask, Numbers{0, 0, 0, 0, 0, 0, 0, 0, -INFINITY});
  run.run();
  EXPECT_EQ(run.get(y), (Numbers{1, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(ReferenceInterpreter, RefusesAnOpThatItDoesNotHave) {
  Bench b;
  ops::sort(b.g, b.f32({2}));
  EXPECT_THROW(ReferenceInterpreter(b.g).run(), std::invalid_argument);
}

}  // namespace
}  // namespace quern::test
