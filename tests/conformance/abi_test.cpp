// The table of rules and cases of the ABI group, the levels, and the watch over allocations.
#include "case_table/case_table.hpp"
#include "device_run/allocation_watch.hpp"
#include "device_run/call_watch.hpp"
#include "device_run/script.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace quern::conformance {
namespace {

struct Row {
  int rule;
  bool accepts;
  std::string name;
};
const std::vector<Row> rows = {
#define QUERN_ABI_ACCEPTS(rule, name) {rule, true, "abi." name},
#define QUERN_ABI_REJECTS(rule, name) {rule, false, "abi." name},
#include "abi/rules.def"
#undef QUERN_ABI_ACCEPTS
#undef QUERN_ABI_REJECTS
};

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

std::set<int> rules_of_the_contract() {
  std::ifstream in(QUERN_SOURCE_DIR "/plugin-api/CONTRACT.md");
  std::set<int> rules;
  const std::regex head("### C([0-9]+) .*");
  std::smatch match;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, match, head)) rules.insert(std::stoi(match[1]));
  return rules;
}

TEST(AbiRules, EachRuleOfTheContractHasAnAcceptingAndARejectingCase) {
  const std::set<int> rules = rules_of_the_contract();
  ASSERT_GE(rules.size(), 30u);
  std::map<int, std::pair<int, int>> cases;
  for (const Row& row : rows) ++(row.accepts ? cases[row.rule].first : cases[row.rule].second);
  for (const int rule : rules) {
    EXPECT_GT(cases[rule].first, 0) << "C" << rule << " has no accepting case in conformance/abi/rules.def";
    EXPECT_GT(cases[rule].second, 0) << "C" << rule << " has no rejecting case in conformance/abi/rules.def";
  }
  for (const auto& [rule, count] : cases)
    EXPECT_TRUE(rules.contains(rule)) << "conformance/abi/rules.def names C" << rule << ", which CONTRACT.md does not have";
}

TEST(AbiRules, EachRowNamesACaseOfTheGroupAndEachCaseHasARow) {
  std::set<std::string> named;
  for (const Row& row : rows) {
    const Case* c = table().find(row.name);
    ASSERT_NE(c, nullptr) << row.name;
    EXPECT_TRUE(c->script) << row.name;
    named.insert(row.name);
  }
  for (const Case& c : table().all())
    EXPECT_TRUE(c.group != "abi" || named.contains(c.name)) << c.name << " shows no rule: give it a row in conformance/abi/rules.def";
}

TEST(Levels, LevelOneAsksForCopiesAndPlainProductsAlone) {
  std::set<std::uint32_t> ops;
  int scripts = 0;
  for (const Case& c : table().all()) {
    if (c.level != level_basic) continue;
    if (c.script) ++scripts;
    else ops.insert(c.op);
    for (const auto* list : {&c.inputs, &c.outputs})
      for (const ValueSpec& v : *list) EXPECT_EQ(format_of(v.dtype), nullptr) << c.name;
    EXPECT_TRUE(c.attributes.empty()) << c.name;
  }
  EXPECT_EQ(ops, (std::set<std::uint32_t>{QUERN_OP_COPY, QUERN_OP_MATMUL}));
  EXPECT_GT(scripts, 50);
}

TEST(Levels, ACaseThatAsksForMoreThanItsLevelIsRaised) {
  Case c = *table().find("copy.copy.f32.7x33.plain.packed.specials");
  EXPECT_EQ(least_level(c), level_basic);
  c.inputs[0].dtype = c.outputs[0].dtype = QUERN_Q8_0;
  EXPECT_EQ(least_level(c), level_inference);
  CaseSink sink;
  c.level = level_basic;
  sink.add(c);
  EXPECT_EQ(sink.take().front().level, level_inference);
}

TEST(AllocationWatch, CountsWhatThisProcessTakesAndCanRefuseIt) {
  if (!AllocationWatch::available()) GTEST_SKIP() << "malloc is the sanitizer's";
  {
    const AllocationWatch watch;
    EXPECT_EQ(watch.count(), 0u);
    auto block = std::make_unique<std::vector<int>>(100);
    EXPECT_EQ(block->size(), 100u);
    EXPECT_EQ(watch.count(), 2u);
  }
  {
    const AllocationWatch watch(2);
    auto first = std::make_unique<int>(1);
    EXPECT_THROW(std::make_unique<int>(2).swap(first), std::bad_alloc);
    EXPECT_EQ(watch.refused(), 1u);
    first = std::make_unique<int>(3);
  }
  EXPECT_NO_THROW(std::make_unique<int>(4));
}

/// What a call did that CallWatch forbids.
std::string watched(const std::function<void()>& call, bool environment = false) {
  return CallWatch::of([&]() -> std::function<void()> { return call; }, environment);
}

TEST(CallWatch, FindsMemoryFilesAndThreadsOfACallAndNothingInAPureOne) {
  if (!CallWatch::available()) GTEST_SKIP() << "system calls cannot be watched in this build or on this machine";
  static volatile int number = 1;
  EXPECT_EQ(watched([] { number = number * 3; }), "");
  EXPECT_NE(watched([] { ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }).find("mmap"), std::string::npos);
  EXPECT_NE(watched([] { ::close(::open("/dev/null", O_RDONLY)); }).find("open"), std::string::npos);
  EXPECT_NE(watched([] { number = ::access("/dev/null", R_OK); }).find("access"), std::string::npos);
  EXPECT_NE(watched([] { std::thread([] {}).join(); }).find("system call"), std::string::npos);
  EXPECT_NE(watched([] { delete[] new std::vector<char>[1] { std::vector<char>(64 << 20) }; }).find("mmap"), std::string::npos);
}

TEST(CallWatch, FindsReadsOfTheEnvironmentWhereTheyAreForbidden) {
  if (!CallWatch::available()) GTEST_SKIP() << "system calls cannot be watched in this build or on this machine";
  static volatile bool set = false;
  const auto reads = [] { set = set || std::getenv("HOME") != nullptr; };
  EXPECT_EQ(watched(reads), "");
  EXPECT_EQ(watched(reads, true), "a read of the environment");
}

TEST(CallWatch, SeesAThreadThatWasThereBefore) {
  if (!CallWatch::available()) GTEST_SKIP() << "system calls cannot be watched in this build or on this machine";
  const std::string found = CallWatch::of(
      []() -> std::function<void()> {
        auto go = std::make_shared<std::atomic<bool>>(false);
        auto ended = std::make_shared<std::atomic<bool>>(false);
        std::thread([go, ended] {
          while (!*go) ::usleep(100);
          ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          *ended = true;
        }).detach();
        return [go, ended] {
          *go = true;
          while (!*ended) ::usleep(100);
        };
      },
      false);
  EXPECT_NE(found.find("mmap"), std::string::npos) << found;
}

TEST(CallWatch, TellsACrashAndWhatPrepareThrows) {
  if (!CallWatch::available()) GTEST_SKIP() << "system calls cannot be watched in this build or on this machine";
  EXPECT_THROW(watched([] { ::raise(SIGKILL); }), std::runtime_error);
  try {
    CallWatch::of([]() -> std::function<void()> { throw std::runtime_error("no device here"); }, false);
    FAIL() << "what prepare throws is lost";
  } catch (const std::runtime_error& error) { EXPECT_STREQ(error.what(), "no device here"); }
}

}  // namespace
}  // namespace quern::conformance
