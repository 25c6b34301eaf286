// A driver that ends a kernel's loops after 65,535 turns (quirks.def, short_loops) is asked for no call that takes more.
#include "sample_fixture.hpp"

#include <string>

namespace {

using namespace quern_test;

class VulkanLoops : public SampleTest {
 protected:
  void SetUp() override {
    SampleTest::SetUp();
    quern_device_info info = zeroed<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
    ASSERT_EQ(api.device_info(plugin, 0, &info, error), QUERN_OK) << error.text();
    short_loops_ = std::string(info.name.data, info.name.size).find("llvmpipe") != std::string::npos;
  }

  /// What is refused there, and nothing elsewhere.
  void expect_refused(const std::string& text) const {
    if (short_loops_) EXPECT_NE(text.find("turns here"), std::string::npos) << text;
    else EXPECT_EQ(text, "");
  }

  std::string dense(std::int64_t keys) {
    GraphBuilder g;
    const auto q = g.value(QUERN_VALUE_INPUT, {1, 1, 1, 128}), k = g.value(QUERN_VALUE_INPUT, {1, keys, 1, 128}),
               v = g.value(QUERN_VALUE_INPUT, {1, keys, 1, 128}), y = g.value(QUERN_VALUE_OUTPUT, {1, 1, 1, 128});
    g.node(QUERN_OP_ATTENTION_DENSE, {q, k, v}, {y}, {real(QUERN_KEY_SCALE, 1), integer(QUERN_KEY_CAUSAL, 0)});
    return refusal(g);
  }
  std::string backward(std::int64_t queries) {
    GraphBuilder g;
    const auto value = [&](std::uint32_t kind, std::int64_t rows) { return g.value(kind, {1, rows, 1, 64}); };
    const auto q = value(QUERN_VALUE_INPUT, queries), k = value(QUERN_VALUE_INPUT, 1), v = value(QUERN_VALUE_INPUT, 1),
               y = value(QUERN_VALUE_INPUT, queries), lse = g.value(QUERN_VALUE_INPUT, {1, queries, 1}),
               dy = value(QUERN_VALUE_INPUT, queries);
    const auto dq = value(QUERN_VALUE_OUTPUT, queries), dk = value(QUERN_VALUE_OUTPUT, 1), dv = value(QUERN_VALUE_OUTPUT, 1);
    g.node(QUERN_OP_ATTENTION_BACKWARD, {q, k, v, y, lse, dy}, {dq, dk, dv}, {real(QUERN_KEY_SCALE, 1), integer(QUERN_KEY_CAUSAL, 0)});
    return refusal(g);
  }
  /// Of packed examples: one of them may have all rows.
  std::string ragged(std::int64_t rows, std::int64_t heads) {
    GraphBuilder g;
    const auto q = g.value(QUERN_VALUE_INPUT, {rows, heads, 128}), k = g.value(QUERN_VALUE_INPUT, {rows, 1, 128}),
               v = g.value(QUERN_VALUE_INPUT, {rows, 1, 128}), start = g.value(QUERN_VALUE_INPUT, {100}, QUERN_I32),
               y = g.value(QUERN_VALUE_OUTPUT, {rows, heads, 128});
    g.node(QUERN_OP_ATTENTION_RAGGED, {q, k, v, start}, {y}, {real(QUERN_KEY_SCALE, 1)});
    return refusal(g);
  }
  std::string ragged_backward(std::int64_t rows, std::int64_t heads) {
    GraphBuilder g;
    const auto value = [&](std::uint32_t kind, std::int64_t of) { return g.value(kind, {rows, of, 64}); };
    const auto q = value(QUERN_VALUE_INPUT, heads), k = value(QUERN_VALUE_INPUT, 1), v = value(QUERN_VALUE_INPUT, 1),
               start = g.value(QUERN_VALUE_INPUT, {100}, QUERN_I32), y = value(QUERN_VALUE_INPUT, heads),
               lse = g.value(QUERN_VALUE_INPUT, {rows, heads}), dy = value(QUERN_VALUE_INPUT, heads);
    const auto dq = value(QUERN_VALUE_OUTPUT, heads), dk = value(QUERN_VALUE_OUTPUT, 1), dv = value(QUERN_VALUE_OUTPUT, 1);
    g.node(QUERN_OP_ATTENTION_RAGGED_BACKWARD, {q, k, v, start, y, lse, dy}, {dq, dk, dv}, {real(QUERN_KEY_SCALE, 1)});
    return refusal(g);
  }
  std::string paged(std::int64_t keys) {
    constexpr std::int64_t page = 16;
    GraphBuilder g;
    const std::int64_t pages = keys / page;
    const auto q = g.value(QUERN_VALUE_INPUT, {1, 1, 64}), k = g.value(QUERN_VALUE_STATE, {4, 1, page, 64}, QUERN_F16),
               v = g.value(QUERN_VALUE_STATE, {4, 1, page, 64}, QUERN_F16), table = g.value(QUERN_VALUE_INPUT, {1, pages}, QUERN_I32),
               slot = g.value(QUERN_VALUE_INPUT, {1}, QUERN_I32), position = g.value(QUERN_VALUE_INPUT, {1}, QUERN_I32),
               y = g.value(QUERN_VALUE_OUTPUT, {1, 1, 64});
    g.node(QUERN_OP_ATTENTION, {q, k, v, table, slot, position}, {y}, {real(QUERN_KEY_SCALE, 1)});
    return refusal(g);
  }

 private:
  bool short_loops_ = false;
};

TEST_F(VulkanLoops, DenseAttentionOfMoreKeysThanItsLoopsHaveTurnsIsRefused) {
  EXPECT_EQ(dense(16000), "");  // 500 tiles of 32 keys, 112 turns for each
  expect_refused(dense(20000));
}

TEST_F(VulkanLoops, GradientsOfMoreQueriesThanThatAreRefused) {
  EXPECT_EQ(backward(16000), "");  // 500 tiles of 32 queries, 72 turns for each
  expect_refused(backward(32000));
}

TEST_F(VulkanLoops, AttentionOfMorePackedRowsThanThatIsRefused) {
  EXPECT_EQ(ragged(8000, 2), "");
  expect_refused(ragged(16000, 2));
  EXPECT_EQ(ragged_backward(4000, 2), "");  // 8000 queries of the heads of a kv head
  expect_refused(ragged_backward(8000, 2));
}

TEST_F(VulkanLoops, AttentionOverPagesTakesMoreKeysAndRefusesWhatIsBeyond) {
  EXPECT_EQ(paged(131072 + 16), "");
  expect_refused(paged(std::int64_t{1} << 22));
}

}  // namespace
