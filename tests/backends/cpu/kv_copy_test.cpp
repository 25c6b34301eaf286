// kv_copy and kv_move: bytes go where the page ids and tables say, in order, and nowhere else.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quern::cpu_test {
namespace {

constexpr std::int64_t pages = 6, heads = 3, page = 4;

/// Bytes of one head of one position.
std::span<std::uint8_t> row(const Tensor& cache, std::int64_t id, std::int64_t head, std::int64_t slot) {
  const std::size_t bytes = cache.bytes() / static_cast<std::size_t>(pages * heads * page);
  return cache.raw().subspan(static_cast<std::size_t>((id * heads + head) * page + slot) * bytes, bytes);
}
bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) { return std::memcmp(a.data(), b.data(), a.size()) == 0; }

Tensor copy_of(const Tensor& t) {
  Tensor out = make(t.dtype, t.dims, t.kind);
  std::memcpy(out.raw().data(), t.raw().data(), t.bytes());
  return out;
}
Tensor random_cache(quern_dtype dtype) {
  Tensor t = random_tensor(dtype, {pages, heads, page, 64}, 1);
  t.kind = QUERN_VALUE_STATE;
  return t;
}

/// The cache is input 0 and output 0.
Outcome run_on(Plugin& plugin, std::uint32_t op, const Tensor& cache, const std::vector<Tensor>& indices,
               const Tensor& predicate = absent()) {
  GraphSpec graph;
  const std::uint32_t id = graph.add(cache);
  NodeSpec node{op, {id}, {id}};
  for (const Tensor& t : indices) node.inputs.push_back(graph.add(t));
  if (predicate.dtype != QUERN_DTYPE_NONE) node.predicate = graph.add(predicate);
  graph.nodes.push_back(node);
  return plugin.run(graph);
}

TEST(KvCopy, CopiesWholePagesOfEveryCacheFormat) {
  Plugin plugin(2);
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}) {
    const Tensor cache = random_cache(dtype), before = copy_of(cache);
    const Outcome outcome = run_on(plugin, QUERN_OP_KV_COPY, cache, {ints({2}, {0, 3}), ints({2}, {5, 1})});
    ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, 0u);
    const std::int64_t source[pages] = {0, 3, 2, 3, 4, 0};
    for (std::int64_t p = 0; p < pages; ++p)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t s = 0; s < page; ++s) EXPECT_TRUE(same(row(cache, p, h, s), row(before, source[p], h, s))) << p;
  }
}

TEST(KvCopy, CopiesRowByRowWhereAPageIsNotPacked) {
  Plugin plugin(2);
  Tensor cache = random_tensor(QUERN_F32, {pages, page, heads, 64}, 2);  // positions before heads
  cache.kind = QUERN_VALUE_STATE;
  const Tensor before = copy_of(cache);
  cache.dims = {pages, heads, page, 64};
  cache.strides = {page * heads * 256, 256, heads * 256, 4};
  ASSERT_EQ(run_on(plugin, QUERN_OP_KV_COPY, cache, {ints({1}, {4}), ints({1}, {2})}).status, QUERN_OK);
  const std::size_t size = heads * page * 256;
  for (std::size_t p = 0; p < pages; ++p)
    EXPECT_EQ(std::memcmp(cache.raw().data() + p * size, before.raw().data() + (p == 2 ? 4 : p) * size, size), 0);
}

TEST(KvCopy, APageOutOfRangeWritesNothingAndRaisesAFault) {
  Plugin plugin(2);
  const Tensor cache = random_cache(QUERN_F16), before = copy_of(cache);
  const Outcome outcome = run_on(plugin, QUERN_OP_KV_COPY, cache, {ints({3}, {0, -1, pages}), ints({3}, {pages, 1, 2})});
  EXPECT_EQ(outcome.status, QUERN_OK);
  EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE);
  EXPECT_TRUE(same(cache.raw(), before.raw()));
}

TEST(KvCopy, APredicateOfZeroWritesNothing) {
  Plugin plugin;
  const Tensor cache = random_cache(QUERN_F16), before = copy_of(cache);
  ASSERT_EQ(run_on(plugin, QUERN_OP_KV_COPY, cache, {ints({1}, {0}), ints({1}, {1})}, ints({1}, {0})).status, QUERN_OK);
  EXPECT_TRUE(same(cache.raw(), before.raw()));
}

TEST(KvMove, MovesPositionsThroughTheTableInTheOrderOfTheList) {
  for (const std::uint32_t threads : {1u, 2u})
    for (const quern_dtype dtype : {QUERN_F32, QUERN_Q8_0}) {
      Plugin plugin(threads);
      const Tensor cache = random_cache(dtype), before = copy_of(cache);
      const Tensor table = ints({2, 2}, {5, 2, 0, 3});
      // Sequence 0: position 6 to 1; then 1 to 7, which carries what 6 held. Sequence 1: 0 to 5.
      const Outcome outcome =
          run_on(plugin, QUERN_OP_KV_MOVE, cache, {table, ints({3}, {0, 0, 1}), ints({3}, {6, 1, 0}), ints({3}, {1, 7, 5})});
      ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
      EXPECT_EQ(outcome.faults, 0u);
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t p = 0; p < pages; ++p)
          for (std::int64_t s = 0; s < page; ++s) {
            const bool from_six = (p == 5 && s == 1) || (p == 2 && s == 3), from_zero = p == 3 && s == 1;
            const auto wanted = from_six ? row(before, 2, h, 2) : from_zero ? row(before, 0, h, 0) : row(before, p, h, s);
            EXPECT_TRUE(same(row(cache, p, h, s), wanted)) << p << ' ' << s;
          }
    }
}

TEST(KvMove, APositionSlotOrPageOutOfRangeWritesNothingAndRaisesAFault) {
  Plugin plugin(2);
  const Tensor cache = random_cache(QUERN_BF16), before = copy_of(cache), table = ints({2, 2}, {5, 99, 0, 3});
  for (const auto& [slot, from, to] :
       {std::tuple{0, 4, 1}, std::tuple{0, 1, 4}, std::tuple{2, 0, 1}, std::tuple{1, 8, 1}, std::tuple{1, 0, -1}}) {
    const Outcome outcome = run_on(plugin, QUERN_OP_KV_MOVE, cache, {table, ints({1}, {slot}), ints({1}, {from}), ints({1}, {to})});
    EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE) << slot << ' ' << from << ' ' << to;
    EXPECT_TRUE(same(cache.raw(), before.raw()));
  }
}

}  // namespace
}  // namespace quern::cpu_test
