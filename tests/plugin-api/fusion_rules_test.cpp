// A backend's table of rules (quern/sdk/fusion/rules.hpp): which row a node that was left is told of.
#include "quern/sdk/fusion/rules.hpp"

#include <gtest/gtest.h>

namespace {

using quern::sdk::fusion::missed;
using quern::sdk::fusion::Refusal;
using quern::sdk::fusion::why_left;

/// Nodes are numbers here: sums of even ones have a norm before them.
struct Backend {
  const char *no_norm = "its norm is read twice", *no_product = "its product is read twice";
  Refusal why_no_norm(std::uint32_t) const { return no_norm; }
  Refusal why_no_product(std::uint32_t) const { return no_product; }
  bool has_norm(std::uint32_t n) const { return n % 2 == 0; }
};
constexpr quern::sdk::fusion::Rule<Backend> table[] = {
    {QUERN_OP_ADD, "norm and sum", &Backend::why_no_norm, &Backend::has_norm},
    {QUERN_OP_ADD, "residual", &Backend::why_no_product},
};

TEST(FusionRules, NodeThatWasLeftIsToldOfTheNearestRule) {
  const Backend backend;
  const auto even = why_left(backend, table, QUERN_OP_ADD, 4), odd = why_left(backend, table, QUERN_OP_ADD, 5);
  EXPECT_EQ(even.node, 4u);
  EXPECT_EQ(even.rule, "norm and sum");
  EXPECT_EQ(even.reason, "its norm is read twice");
  EXPECT_EQ(odd.rule, "residual");
  EXPECT_EQ(odd.reason, "its product is read twice");
}
TEST(FusionRules, NodeOfAnOpWithoutARuleIsToldSo) {
  const auto left = why_left(Backend{}, table, QUERN_OP_COPY, 4);
  EXPECT_EQ(left.rule, "");
  EXPECT_EQ(left.reason, "no rule of this backend takes its op");
}
TEST(FusionRules, NodeThatAFartherRuleTakesWasMissed) {
  Backend backend;
  backend.no_product = nullptr;
  const auto left = why_left(backend, table, QUERN_OP_ADD, 4);
  EXPECT_EQ(left.rule, "residual");
  EXPECT_EQ(left.reason, missed);
}
TEST(FusionRules, RuleThatIsNotNearANodeDoesNotMissIt) {
  Backend backend;
  backend.no_norm = nullptr;
  EXPECT_EQ(why_left(backend, table, QUERN_OP_ADD, 5).reason, "its product is read twice");
}

}  // namespace
