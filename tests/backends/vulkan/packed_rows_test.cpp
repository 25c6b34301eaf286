// attention_ragged is a dense call with one more dim: operands of other ranks are refused before that.
#include "sample_fixture.hpp"

#include <string>

namespace {

using namespace quern_test;
using Dims = std::vector<std::int64_t>;

class VulkanPackedRows : public SampleTest {
 protected:
  /// Operand `other` has the most dims that a value may have.
  std::string forward(std::size_t other) { return refusal(QUERN_OP_ATTENTION_RAGGED, 4, {rows, keys, keys, start, rows, lse}, other); }
  std::string backward(std::size_t other) {
    return refusal(QUERN_OP_ATTENTION_RAGGED_BACKWARD, 7, {rows, keys, keys, start, rows, lse, rows, rows, keys, keys}, other);
  }

  static constexpr std::size_t none = 99, forward_operands = 6, backward_operands = 10;

 private:
  const Dims rows = {5, 4, 8}, keys = {5, 2, 8}, start = {3}, lse = {5, 4};

  std::string refusal(std::uint32_t op, std::size_t inputs, const std::vector<Dims>& operands, std::size_t other) {
    GraphBuilder g;
    std::vector<std::uint32_t> in, out;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::uint32_t value = g.value(i < inputs ? QUERN_VALUE_INPUT : QUERN_VALUE_OUTPUT,
                                          i == other ? Dims(QUERN_MAX_DIMS, 1) : operands[i], i == 3 ? QUERN_I32 : QUERN_F32);
      (i < inputs ? in : out).push_back(value);
    }
    g.node(op, in, out, {real(QUERN_KEY_SCALE, 1)});
    return SampleTest::refusal(g);
  }
};

TEST_F(VulkanPackedRows, AnOperandOfSixDimsIsRefused) {
  EXPECT_EQ(forward(none), "");
  EXPECT_EQ(backward(none), "");
  const std::string six = "is [1, 1, 1, 1, 1, 1]";
  for (std::size_t i = 0; i < forward_operands; ++i) EXPECT_NE(forward(i).find(six), std::string::npos) << i << ": " << forward(i);
  for (std::size_t i = 0; i < backward_operands; ++i) EXPECT_NE(backward(i).find(six), std::string::npos) << i << ": " << backward(i);
}

}  // namespace
