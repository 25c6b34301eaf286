// What the suite says: names of codes, all claims of a script, where a process ended, reasons, jobs of a device.
#include "case_table/case_table.hpp"
#include "device_run/breadcrumb.hpp"
#include "device_run/status_words.hpp"
#include "quern/quern_device.h"
#include "quern/quern_plan.h"
#include "report/bound_text.hpp"
#include "report/reasons.hpp"
#include "worker/jobs.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace quern::conformance {
namespace {

TEST(StatusWords, EveryCodeHasTheNameOfItsHeader) {
  std::set<std::string> names;
  for (quern_status s = QUERN_OK; s <= QUERN_DOES_NOT_FIT; ++s) {
    EXPECT_EQ(status_words(s).find("status "), std::string::npos) << s;
    EXPECT_TRUE(names.insert(status_words(s)).second) << s;
  }
  EXPECT_EQ(status_words({QUERN_UNSUPPORTED, QUERN_INVALID_ARGUMENT}), "UNSUPPORTED or INVALID_ARGUMENT");
  EXPECT_EQ(status_words(4711), "status 4711");
  EXPECT_EQ(fault_words(0), "none");
  EXPECT_EQ(fault_words(QUERN_FAULT_INDEX_RANGE | QUERN_FAULT_EXPERT_ABSENT | 1ull << 40),
            "INDEX_RANGE and EXPERT_ABSENT and bits 0x10000000000");
}

std::vector<std::byte> crumbs(breadcrumb_bytes);
std::string seen;

quern_status submit_that_looks(quern_device*, quern_queue*, const quern_array*, quern_error*) {
  seen = breadcrumb_words(crumbs);
  return QUERN_BUSY;
}

TEST(Breadcrumb, NamesTheOpenCallTheClaimAndTheRefusedAllocation) {
  leave_breadcrumbs_in(crumbs);
  quern_plugin_api api{};
  api.submit = submit_that_looks;
  trace_calls(api);
  EXPECT_EQ(api.compile, nullptr);
  EXPECT_NE(api.submit, submit_that_looks);
  EXPECT_EQ(untraced(api).submit, submit_that_looks);
  trace_calls(api);  // another device of the plugin: no mark around a mark
  EXPECT_EQ(untraced(api).submit, submit_that_looks);
  EXPECT_EQ(api.submit(nullptr, nullptr, nullptr, nullptr), QUERN_BUSY);
  EXPECT_EQ(seen, "in submit");
  EXPECT_EQ(breadcrumb_words(crumbs), "");
  crumb_of_claim("the first run is right");
  crumb_of_refusal(17);
  api.submit(nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(seen, "in submit, after the claim 'the first run is right', with allocation 17 refused");
  clear_breadcrumbs();
  EXPECT_EQ(breadcrumb_words(crumbs), "");
}

TEST(Reasons, SameWordsWithOtherNumbersAndNamesAreOneReason) {
  EXPECT_EQ(reason_key("exact: element 17 is 0.25, expected 0.5 within 1.2e-07 (add.f32.rows)"),
            reason_key("exact: element 3 is -1, expected 7 within 4 (add.f16)"));
  EXPECT_EQ(reason_key("no op 'gelu' here"), reason_key("no op 'silu' here"));
  EXPECT_NE(reason_key("no op 'gelu' here"), reason_key("no op 'gelu' there"));
  EXPECT_NE(reason_key("exact: element 1 is 2"), reason_key("fast: element 1 is 2"));
}

Record record_of(const std::vector<std::tuple<std::string, Status, std::string, double>>& results) {
  Record record;
  record.header.targets.resize(1);
  record.header.targets[0].label = "card:0";
  for (const auto& [name, status, text, ms] : results) {
    RecordedResult r;
    r.case_name = name;
    r.target = 0;
    r.result.verdict = {status, text, 0, 1, {}};
    r.result.milliseconds = ms;
    record.results.push_back(r);
  }
  return record;
}

TEST(Reasons, AreCountedMostFrequentFirstAndTheSlowestCasesAreNamed) {
  const Record record = record_of({{"a.b", Status::fail, "element 1 is 2", 5},
                                   {"a.c", Status::pass, "", 7000},
                                   {"a.d", Status::crash, "signal 11", 1},
                                   {"a.e", Status::fail, "element 9 is 4", 30},
                                   {"a.f", Status::waived, "no queue", 2}});
  const std::vector<Reason> list = reasons(record, 0);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].count, 2u);
  EXPECT_EQ(list[0].example, "a.b");
  EXPECT_EQ(list[1].status, Status::crash);
  EXPECT_EQ(reasons_text(record), "by reason:\n2 times fail on card:0: element 1 is 2\n    such as a.b\n");
  EXPECT_EQ(times_text(record), "cases took 7.04 s together, the slowest: 7.00 s a.c on card:0; 30 ms a.e on card:0; 5 ms a.b on card:0\n");
}

TEST(Jobs, AreOneAProcessorAndOnACardSixAtMostAndOneAGiB) {
  Target cpu, card, software;
  cpu.device_class = QUERN_DEVICE_CPU;
  card.device_class = QUERN_DEVICE_DISCRETE;
  software.device_class = QUERN_DEVICE_SOFTWARE;
  const auto free = [](std::uint64_t bytes) { return [bytes](const Target&) { return bytes; }; };
  constexpr std::uint64_t gib = 1 << 30;
  EXPECT_EQ(jobs_for(128, {cpu}, [](const Target&) -> std::uint64_t { throw std::logic_error("a CPU is not asked"); }), 128u);
  EXPECT_EQ(jobs_for(128, {software}, [](const Target&) -> std::uint64_t { throw std::logic_error("nor is a driver in software"); }), 128u);
  EXPECT_EQ(jobs_for(128, {cpu, card}, free(80 * gib)), 6u);
  EXPECT_EQ(jobs_for(128, {card}, free(3 * gib + 5)), 3u);
  EXPECT_EQ(jobs_for(128, {card}, free(gib / 2)), 1u);
  EXPECT_EQ(jobs_for(2, {card}, free(80 * gib)), 2u);
  EXPECT_EQ(jobs_for(16, {card}, free(0)), 6u) << "unknown memory does not bound";
}

TEST(BoundText, HasTheBoundOfElementsItsPartsAndTheDerivation) {
  const CaseTable table;
  const Case* product = table.find("matmul.matmul.f32-q4_0-f32.1x1024-8x1024-1x8.plain.packed-packed_const-packed.gaussian");
  ASSERT_NE(product, nullptr);
  const std::string text = bound_text(*product, 0);
  for (const char* part : {"a sum of K = 1024 terms", "E_acc ", " + E_out ", " + E_in 8 x ", "derivation: ", "conformance/ops/matmul.cpp"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_NE(bound_text(*product, 7), text) << "another seed has other elements";
}

}  // namespace
}  // namespace quern::conformance
