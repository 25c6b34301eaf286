// Attention of packed examples and its gradients: each example has the bits of dense attention over it alone, which other tests hold to f64.
#include "harness.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace quern::cpu_test {
namespace {

constexpr std::int64_t heads = 6, kv_heads = 2, head_size = 24, value_size = 20;

struct Case {
  std::vector<std::int32_t> start = {0, 70, 70, 71, 201};
  std::int64_t rows = 206;  // the last 5 are in no example
  quern_dtype dtype = QUERN_F32;
  std::vector<Attribute> how = {{QUERN_KEY_SCALE, 0.2}};
};

struct Problem {
  Tensor q, k, v, start, y, lse, dy, dq, dk, dv;
  explicit Problem(const Case& c)
      : q(random_tensor(c.dtype, {c.rows, heads, head_size}, 1)),
        k(random_tensor(c.dtype, {c.rows, kv_heads, head_size}, 2)),
        v(random_tensor(c.dtype, {c.rows, kv_heads, value_size}, 3)),
        start(ints({static_cast<std::int64_t>(c.start.size())}, c.start)),
        y(make(c.dtype, {c.rows, heads, value_size})),
        lse(make(QUERN_F32, {c.rows, heads})),
        dy(random_tensor(c.dtype, y.dims, 4)),
        dq(make(c.dtype, q.dims)),
        dk(make(c.dtype, k.dims)),
        dv(make(c.dtype, v.dims)) {}
  /// With their names.
  std::vector<std::pair<const char*, const Tensor*>> results() const {
    return {{"y", &y}, {"lse", &lse}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}};
  }
};

Outcome run(Plugin& plugin, const Case& c, const Problem& p) {
  const Outcome forward = run_node(plugin, QUERN_OP_ATTENTION_RAGGED, {p.q, p.k, p.v, p.start}, {p.y, p.lse}, c.how);
  if (forward.status != QUERN_OK) return forward;
  Outcome backward =
      run_node(plugin, QUERN_OP_ATTENTION_RAGGED_BACKWARD, {p.q, p.k, p.v, p.start, p.y, p.lse, p.dy}, {p.dq, p.dk, p.dv}, c.how);
  backward.faults &= forward.faults;  // both raise the same
  return backward;
}

/// Rows [first, end) of x as one batch.
Tensor batch_of(const Tensor& x, std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> dims = x.dims;
  dims[0] = end - first;
  dims.insert(dims.begin(), 1);
  Tensor batch = make(x.dtype, dims);
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.dims[0]);
  std::memcpy(batch.raw().data(), x.raw().data() + static_cast<std::size_t>(first) * row, batch.bytes());
  return batch;
}

void expect_rows(const Tensor& x, std::int64_t first, const Tensor& batch, const std::string& what) {
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.dims[0]);
  EXPECT_EQ(std::memcmp(x.raw().data() + static_cast<std::size_t>(first) * row, batch.raw().data(), batch.bytes()), 0) << what;
}

void expect_bits_of_dense(Plugin& plugin, const Case& c, const Problem& p, const std::string& what) {
  for (std::size_t e = 0; e + 1 < c.start.size(); ++e) {
    const std::int64_t first = c.start[e], end = c.start[e + 1];
    if (first == end) continue;
    const auto part = [&](const Tensor& x) { return batch_of(x, first, end); };
    const Tensor q = part(p.q), k = part(p.k), v = part(p.v), y = part(p.y), lse = part(p.lse), dq = part(p.dq), dk = part(p.dk),
                 dv = part(p.dv);
    for (const Tensor* made : {&y, &lse, &dq, &dk, &dv}) std::ranges::fill(made->raw(), std::uint8_t{0x5a});
    ASSERT_EQ(run_node(plugin, QUERN_OP_ATTENTION_DENSE, {q, k, v, absent(), absent()}, {y, lse}, c.how).status, QUERN_OK);
    ASSERT_EQ(run_node(plugin, QUERN_OP_ATTENTION_BACKWARD, {q, k, v, y, lse, part(p.dy), absent(), absent()}, {dq, dk, dv}, c.how).status,
              QUERN_OK);
    const std::string of = what + ", example " + std::to_string(e) + ": ";
    expect_rows(p.y, first, y, of + "y");
    expect_rows(p.lse, first, lse, of + "lse");
    expect_rows(p.dq, first, dq, of + "dq");
    expect_rows(p.dk, first, dk, of + "dk");
    expect_rows(p.dv, first, dv, of + "dv");
  }
}

/// What rows from `first` on have that are in no example.
void expect_empty(const Problem& p, std::int64_t first) {
  for (const auto& [name, x] : p.results()) {
    const std::vector<float> values = x->floats();
    const float expected = x == &p.lse ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (std::size_t i = values.size() / static_cast<std::size_t>(x->dims[0]) * static_cast<std::size_t>(first); i < values.size(); ++i)
      ASSERT_EQ(values[i], expected) << name << "[" << i << "]";
  }
}

TEST(AttentionRagged, ExamplesHaveTheBitsThatTheyHaveAlone) {
  for (const std::string& family : families())
    for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16})
      for (const std::vector<Attribute>& further :
           {std::vector<Attribute>{}, {{QUERN_KEY_WINDOW, 3.0}, {QUERN_KEY_SOFTCAP, 0.7}}, {{QUERN_KEY_CAUSAL, 0.0}}}) {
        Plugin plugin(2, {{"force_kernel", family}});
        Case c;
        c.dtype = dtype;
        c.how.insert(c.how.end(), further.begin(), further.end());
        const Problem p(c);
        const Outcome outcome = run(plugin, c, p);
        ASSERT_EQ(outcome.status, QUERN_OK) << outcome.text;
        EXPECT_EQ(outcome.faults, 0u);
        expect_bits_of_dense(plugin, c, p, family + " dtype " + std::to_string(dtype));
        expect_empty(p, c.start.back());
      }
}

TEST(AttentionRagged, ThreadsAndWhatOtherExamplesHoldChangeNoBit) {
  Plugin one(1), four(4);
  const Case c;
  const Problem a(c), b(c);
  ASSERT_EQ(run(one, c, a).status, QUERN_OK);
  const auto poison = [&](const Tensor& x) {  // the first example, and rows of none
    const std::size_t row = static_cast<std::size_t>(x.elements() / x.dims[0]);
    for (std::size_t i = 0; i < x.f32().size(); ++i)
      if (i < 70 * row || i >= 201 * row) x.f32()[i] = std::numeric_limits<float>::quiet_NaN();
  };
  for (const Tensor* x : {&b.q, &b.k, &b.v, &b.dy}) poison(*x);
  ASSERT_EQ(run(four, c, b).status, QUERN_OK);
  const auto left = a.results(), right = b.results();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::size_t row = left[i].second->bytes() / static_cast<std::size_t>(c.rows);
    EXPECT_EQ(std::memcmp(left[i].second->raw().data() + 70 * row, right[i].second->raw().data() + 70 * row, 131 * row), 0)
        << left[i].first;
    EXPECT_TRUE(std::isnan(right[i].second->f32()[0])) << right[i].first;
  }
  expect_empty(b, 201);
}

TEST(AttentionRagged, AListThatIsRefusedRaisesAFaultAndNoRowIsInAnExample) {
  Plugin plugin(2);
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min(), most = std::numeric_limits<std::int32_t>::max();
  for (const std::vector<std::int32_t>& start : std::vector<std::vector<std::int32_t>>{
           {1, 206}, {0, 100, 50, 206}, {0, 207}, {0, 5, -1}, {least, 206}, {0, most}, {0, most, least, 4}, {0, 206, 205}}) {
    Case c;
    c.start = start;
    const Problem p(c);
    const Outcome outcome = run(plugin, c, p);
    EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
    EXPECT_EQ(outcome.faults, QUERN_FAULT_INDEX_RANGE) << start.back();
    expect_empty(p, 0);
  }
}

TEST(AttentionRagged, NoExampleAndNoRow) {
  Plugin plugin(2);
  Case c;
  c.start = {0};
  const Problem p(c);
  EXPECT_EQ(run(plugin, c, p).faults, 0u);
  expect_empty(p, 0);
  c.rows = 0;
  const Problem none(c);
  const Outcome outcome = run(plugin, c, none);
  EXPECT_EQ(outcome.status, QUERN_OK) << outcome.text;
  EXPECT_EQ(outcome.faults, 0u);
}

TEST(AttentionRagged, RefusesShapesThatDoNotFit) {
  Plugin plugin;
  const Case c;
  Problem p(c);
  const auto text = [&] { return run(plugin, c, p).text; };
  p.start = make(QUERN_F32, {3});
  EXPECT_NE(text().find("start is [3] f32; i32 is taken"), std::string::npos) << text();
  p.start = ints({0}, {});
  EXPECT_NE(text().find("start is [0] i32; it is [s+1], and s is 0 or more"), std::string::npos) << text();
  p.start = ints({2}, {0, 206});
  p.k = make(QUERN_F32, {205, kv_heads, head_size});
  EXPECT_NE(text().find("k is [205, 2, 24] f32"), std::string::npos) << text();
  p.k = make(QUERN_F32, {206, 4, head_size});
  EXPECT_NE(text().find("v is [206, 2, 20] f32; it is [t,kv_heads,dv] with t = 206, kv_heads = 4, dv = 20"), std::string::npos) << text();
  p.v = make(QUERN_F32, {206, 4, 20});
  EXPECT_NE(text().find("heads is 6 and kv_heads is 4; heads is a multiple of kv_heads"), std::string::npos) << text();
  p.k = make(QUERN_F32, {206, kv_heads, head_size, 1});
  EXPECT_NE(text().find("k is [206, 2, 24, 1] f32"), std::string::npos) << text();
}

}  // namespace
}  // namespace quern::cpu_test
