// Long cases run first, and no lane is left with many at the end.
#include "worker/dealing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace quern::conformance {
namespace {

using testing::ElementsAre;

Case copy_of(std::string name, std::int64_t elements) {
  Case c;
  c.name = std::move(name);
  c.op = QUERN_OP_COPY;
  ValueSpec x;
  x.dtype = QUERN_F32;
  x.dims = {elements};
  c.inputs = {x};
  c.outputs = {x};
  return c;
}

Case script(std::string name) {
  Case c;
  c.name = std::move(name);
  c.script = [](ScriptContext&) {};
  return c;
}

std::vector<const Case*> pointers(const std::vector<Case>& cases) {
  std::vector<const Case*> list;
  for (const Case& c : cases) list.push_back(&c);
  return list;
}

TEST(Dealing, LargeCasesThenScriptsThenForcedKernelsComeFirst) {
  Case forced = copy_of("forced", 4);
  forced.every_kernel = true;
  const std::vector<Case> cases = {copy_of("small", 4), copy_of("large", 8 << 20), forced, copy_of("larger", 16 << 20), script("script")};
  std::vector<const Case*> order = pointers(cases);
  longest_first(order);
  std::vector<std::string> names;
  for (const Case* c : order) names.push_back(c->name);
  EXPECT_THAT(names, ElementsAre("larger", "large", "script", "forced", "small"));
}

TEST(Dealing, ScriptsAndLargeCasesAreDealtOneByOne) {
  std::vector<Case> cases;
  for (int i = 0; i < 3; ++i) cases.push_back(script("script"));
  cases.push_back(copy_of("large", 1 << 20));
  for (int i = 0; i < 2000; ++i) cases.push_back(copy_of("small", 4));
  const std::vector<const Case*> list = pointers(cases);
  Dealer dealer(list, 2);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(dealer.take(), std::pair(i, i + 1));
  EXPECT_EQ(dealer.take(), std::pair(std::size_t{4}, std::size_t{254}));  // an eighth of those left
}

TEST(Dealing, EachCaseIsDealtOnceAndTheLastOnesSingly) {
  const std::vector<Case> cases(1000, copy_of("small", 4));
  const std::vector<const Case*> list = pointers(cases);
  Dealer dealer(list, 8);
  std::size_t next = 0, last = 0;
  for (auto [begin, end] = dealer.take(); begin != end; std::tie(begin, end) = dealer.take()) {
    EXPECT_EQ(begin, next);
    last = end - begin;
    next = end;
  }
  EXPECT_EQ(next, cases.size());
  EXPECT_EQ(last, 1u);
}

}  // namespace
}  // namespace quern::conformance
