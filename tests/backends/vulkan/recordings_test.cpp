// Steps are recorded for each set of extents and kept. What their parameters take has a bound, however long a plan is; a run of any extents works.
#include "sample_fixture.hpp"

namespace {

using namespace quern_test;

class VulkanRecordings : public SampleTest {
 protected:
  static constexpr std::int64_t most_rows = 200;

  /// x + x, n times over, of up to `most_rows` rows.
  struct Doubled {
    GraphBuilder graph;
    std::uint32_t x, y, rows;
    explicit Doubled(std::size_t n) {
      x = graph.value(QUERN_VALUE_INPUT, {most_rows, 2});
      y = graph.value(QUERN_VALUE_OUTPUT, {most_rows, 2});
      rows = graph.range(x, 0, 1);
      graph.use(y, 0, rows);
      std::uint32_t last = x;
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t next = i + 1 == n ? y : graph.value(QUERN_VALUE_INTERNAL, {most_rows, 2});
        if (next != y) graph.use(next, 0, rows);
        // Each but the last halves what the one before doubled, so that values stay small.
        graph.node(i % 2 == 0 ? QUERN_OP_ADD : QUERN_OP_SUB, {last, i % 2 == 0 ? last : x}, {next});
        last = next;
      }
    }
  };
  std::uint64_t private_bytes(std::size_t nodes) {
    Doubled d(nodes);
    const std::vector<float> zeros(most_rows * 2);
    const Ready r = ready(d.graph, {{d.x, holding(zeros)}, {d.y, holding(zeros)}});
    EXPECT_EQ(r.prepared, QUERN_OK) << error.text();
    const std::uint64_t bytes = r.info.private_bytes;
    drop(r);
    return bytes;
  }
};

TEST_F(VulkanRecordings, OfALongPlanTakeNoMoreThanTheirBound) {
  const std::uint64_t few = private_bytes(10), many = private_bytes(1000), most = private_bytes(4000);
  EXPECT_GT(few, 0u);
  EXPECT_GT(many, few);
  EXPECT_LE(many, std::uint64_t{16} << 20);
  EXPECT_LE(most, std::uint64_t{16} << 20);
}

TEST_F(VulkanRecordings, AreMadeAnewForExtentsThatHaveNone) {
  Doubled d(4001);  // room for a few recordings, and more extents than those
  std::vector<float> ones(most_rows * 2, 1);
  const quern_span at_y = holding(std::vector<float>(most_rows * 2));
  const Ready r = ready(d.graph, {{d.x, holding(ones)}, {d.y, at_y}});
  ASSERT_EQ(r.prepared, QUERN_OK) << error.text();
  for (const std::int64_t rows : {200, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 1, 200}) {
    ASSERT_EQ(run(r, {}, {{d.rows, 0, rows}}).code, QUERN_OK) << error.text();
    const std::vector<float> y = contents(at_y);
    for (std::int64_t i = 0; i < rows * 2; ++i) ASSERT_EQ(y[i], 2.0f) << rows << " " << i;
  }
  drop(r);
}

}  // namespace
