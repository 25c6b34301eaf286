// The references: every quick case's reference accepts its own values, and rejects them with one element moved by four bounds.
#include "case_table/case_table.hpp"
#include "judge/judge.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::conformance {
namespace {

/// What a perfect plugin would return for output o.
Tensor ideal(const Case& c, std::size_t o, const ExpectedOutput& e) {
  Tensor y(c.outputs[o].dtype, c.outputs[o].dims);
  if (e.rule == Rule::bits) std::copy(e.bytes.begin(), e.bytes.end(), y.bytes().begin());
  else
    for (std::size_t i = 0; i < e.value.size(); ++i)
      y.set(e.index.empty() ? static_cast<std::int64_t>(i) : e.index[i], static_cast<double>(static_cast<float>(e.value[i])));
  return y;
}

TEST(References, AcceptTheirOwnValuesAndNoOtherOnes) {
  const CaseTable table;
  std::size_t n = 0;
  for (const Case* c : table.of(Profile::quick)) {
    if (c->script || n++ % 16 != 0 || input_bytes(*c) > 1 << 20) continue;  // a sample: each family is in it
    std::vector<std::byte> arena(input_bytes(*c));
    const CaseData data = map_data(*c, arena);
    fill_data(*c, data);
    Expected expected;
    expected.outputs.resize(c->outputs.size());
    c->reference({*c, data.inputs, data.states}, expected);
    for (std::size_t o = 0; o < c->outputs.size(); ++o) {
      const ExpectedOutput& e = expected.outputs[o];
      if (c->outputs[o].absent() || element_count(c->outputs[o].dims) == 0 || format_of(c->outputs[o].dtype) != nullptr) continue;
      const Tensor y = ideal(*c, o, e);
      EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::pass) << c->name << ": " << judge(e, y, Numerics::exact).text;
      if (e.rule == Rule::bits) {
        y.bytes()[y.bytes().size() / 2] ^= std::byte{1};
        EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::fail) << c->name;
        continue;
      }
      const std::size_t at = e.value.size() / 2;
      const double r = e.value[at], bound = e.rule == Rule::value ? 0 : e.bound[at];
      const double moved = std::isfinite(y.rounded(r)) ? r + 4 * (bound + store_bound(y.dtype(), r)) + (y.dtype() == QUERN_I32 ? 1 : 0) : 1.0;
      y.set(e.index.empty() ? static_cast<std::int64_t>(at) : e.index[at], moved);
      EXPECT_EQ(judge(e, y, Numerics::exact).status, Status::fail) << c->name;
    }
  }
  EXPECT_GT(n, 0u);
}

}  // namespace
}  // namespace quern::conformance
