// Names and sizes of dtypes, and ops.def as it is parsed.
#include "gradient_call.hpp"

#include "quern/graph/op_info.hpp"
#include "quern/quern_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace quern::graph {
namespace {

TEST(Dtypes, NamesGoBothWays) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32, QUERN_I64, QUERN_U32, QUERN_U8, QUERN_Q4_0, QUERN_Q4_1,
                                  QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K})
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype) << dtype;
  EXPECT_EQ(dtype_name(QUERN_Q4_K), "q4_k");
  EXPECT_EQ(dtype_name(99), "dtype 99");
  EXPECT_FALSE(dtype_from_name("q9_9"));
}

TEST(Dtypes, BlocksAreThoseOfTheFormatTable) {
  for (const quern_format& format : quern_formats) {
    EXPECT_EQ(block_size(format.id).elements, format.block_elements);
    EXPECT_EQ(block_size(format.id).bytes, format.block_bytes);
    EXPECT_EQ(format_hash(format.id), format.hash);
    EXPECT_TRUE(is_block_format(format.id));
  }
  EXPECT_EQ(format_hash(QUERN_F16), 0u);
  EXPECT_FALSE(is_block_format(QUERN_I32));
  EXPECT_THROW(block_size(QUERN_DTYPE_NONE), Error);
}

TEST(Dtypes, BytesOfAShape) {
  EXPECT_EQ(byte_size(QUERN_F32, {}), 4u);
  EXPECT_EQ(byte_size(QUERN_F16, {3, 5}), 30u);
  EXPECT_EQ(byte_size(QUERN_Q4_1, {3, 64}), 120u);
  EXPECT_EQ(byte_size(QUERN_F32, {0, 5}), 0u);
  EXPECT_EQ(byte_size(QUERN_U8, {INT64_MAX}), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_THROW(byte_size(QUERN_F16, {INT64_MAX}), Error);
  EXPECT_THROW(byte_size(QUERN_Q8_0, {3, 33}), Error);
}

TEST(OpTable, EveryRowIsParsed) {
  std::set<std::uint32_t> ids;
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(ids.insert(op.id).second) << op.name;
    EXPECT_FALSE(op.outputs.empty()) << op.name;
    EXPECT_EQ(find_op(op.name), &op);
    EXPECT_EQ(op_name(op.id), op.name);
    if (op.gradient != "-" && op.gradient != "composite") {
      EXPECT_NE(find_op(op.gradient), nullptr) << op.name << " names " << op.gradient;
    }
  }
  EXPECT_EQ(ids.size(), all_ops().size());
  EXPECT_EQ(find_op(std::uint32_t{4711}), nullptr);
  EXPECT_EQ(find_op("rms"), nullptr);
}

TEST(OpTable, ARowNamesAGradientIfAndOnlyIfItHasOne) {
  for (const OpInfo& op : all_ops()) EXPECT_EQ(find_gradient(op.id) != nullptr, op.gradient != "-") << op.name;
  EXPECT_EQ(find_gradient(4711), nullptr);
}

TEST(OpTable, MarksAndDefaultsAreRead) {
  const OpInfo& norm = *find_op("rms_norm");
  ASSERT_EQ(norm.inputs.size(), 2u);
  EXPECT_FALSE(norm.inputs[0].optional);
  EXPECT_TRUE(norm.inputs[1].optional);
  ASSERT_EQ(norm.attributes.size(), 2u);
  EXPECT_TRUE(norm.attributes[0].required);
  EXPECT_FALSE(norm.attributes[1].required);
  EXPECT_TRUE(find_op("concat")->inputs[0].variadic);
  EXPECT_EQ(find_op("clamp")->attribute(QUERN_KEY_MIN)->number, -HUGE_VAL);
  EXPECT_EQ(find_op("glu")->attribute(QUERN_KEY_LIMIT)->number, HUGE_VAL);
  EXPECT_EQ(find_op("cross_entropy")->attribute(QUERN_KEY_IGNORE)->integer, -100);
  EXPECT_EQ(find_op("adamw")->attribute(QUERN_KEY_EPSILON)->number, 1e-8);
  EXPECT_EQ(find_op("fill")->inputs.size(), 0u);
  EXPECT_EQ(attribute_name(QUERN_KEY_EPSILON), "epsilon");
  EXPECT_EQ(attribute_name(999), "attribute 999");
}

}  // namespace
}  // namespace quern::graph
