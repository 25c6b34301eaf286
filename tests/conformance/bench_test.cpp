// What bench derives from a case and from the seconds of its runs.
#include "bench/bench_table.hpp"
#include "bench/work.hpp"
#include "ops/family.hpp"
#include "ops/given.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

namespace quern::conformance {
namespace {

const CaseTable& table() {
  static const CaseTable all;
  return all;
}

Case product(quern_dtype weights) {
  Case c;
  c.op = QUERN_OP_MATMUL;
  c.inputs = {input(QUERN_F32, {2, 8, 64}), constant(weights, {16, 64})};
  c.outputs = {output(QUERN_F32, {2, 8, 16})};
  return c;
}

TEST(Work, OfAProduct) {
  const Work work = work_of(product(QUERN_Q8_0));
  EXPECT_EQ(work.flops, 2.0 * 2 * 8 * 16 * 64);
  EXPECT_EQ(work.bytes, 2 * 8 * 64 * 4 + 16 * 2 * 34 + 2 * 8 * 16 * 4);  // a block of q8_0 is 34 bytes for 32 elements
}

TEST(Work, AGatherMovesTheRowsThatItReads) {
  Case c;
  c.op = QUERN_OP_GET_ROWS;
  c.inputs = {input(QUERN_F32, {1000, 8}), input(QUERN_I32, {3})};
  c.outputs = {output(QUERN_F32, {3, 8})};
  EXPECT_EQ(work_of(c).bytes, 3 * 32 + 3 * 4 + 3 * 32);
}

TEST(Work, OfExpertsIsThatOfThoseThatAreChosen) {
  Case c;
  c.op = QUERN_OP_MATMUL_ID;
  c.inputs = {input(QUERN_F32, {3, 1, 64}), constant(QUERN_Q8_0, {5, 16, 64}),
              given(input(QUERN_I32, {3, 2}), "ids", std::vector<std::int64_t>{4, 1, 4, -1, 1, 7})};
  c.outputs = {output(QUERN_F32, {3, 2, 16})};
  EXPECT_EQ(work_of(c).flops, 2.0 * 4 * 16 * 64);                                  // -1 and 7 are no experts
  EXPECT_EQ(work_of(c).bytes, 3 * 64 * 4 + 2 * 16 * 2 * 34 + 6 * 4 + 6 * 16 * 4);  // experts 1 and 4
  c.inputs[2].fill = nullptr;
  EXPECT_EQ(work_of(c).bytes, 0) << "nobody knows which";
}

TEST(Work, AStateIsReadAndWritten) {
  Case c;
  c.op = QUERN_OP_SGD;
  c.inputs = {input(QUERN_F32, {10}), input(QUERN_F32, {1})};
  c.outputs = {state(QUERN_F32, {10})};
  EXPECT_EQ(work_of(c).bytes, 40 + 4 + 80);
}

TEST(BenchCases, PeaksGrowAndHaveNoPlaceInAProfile) {
  std::set<std::string> names;
  for (const PeakCase& p : peak_cases(table())) {
    EXPECT_TRUE(names.insert(p.what.name).second);
    EXPECT_TRUE(p.what.name.starts_with("peak."));
    EXPECT_EQ(find_bench_case(table(), p.what.name), &p.what);
    EXPECT_EQ(table().find(p.what.name), nullptr);
  }
  EXPECT_EQ(find_bench_case(table(), "no.such.case"), nullptr);
}

TEST(BenchCases, OfEachOpAndDtypesTheLargest) {
  const std::vector<const Case*> quick = table().of(Profile::quick), chosen = timed_cases(quick, true);
  EXPECT_LT(chosen.size(), timed_cases(quick, false).size());
  std::set<std::string> ops;
  for (const Case* c : chosen) ops.insert(op_name(c->op));
  EXPECT_TRUE(ops.contains("matmul") && ops.contains("copy") && ops.contains("rms_norm"));
}

TEST(BenchCases, SharesAreOfThePeakOfTheWeights) {
  EXPECT_EQ(peak_of(product(QUERN_Q4_K), true), Peak::quantised);
  EXPECT_EQ(peak_of(product(QUERN_F16), false), Peak::narrow);
  EXPECT_EQ(peak_of(product(QUERN_F32), true), Peak::narrow);
  EXPECT_EQ(peak_of(product(QUERN_F32), false), Peak::f32);
}

DeviceBench measured(const Case& c, Status status) {
  DeviceBench bench;
  bench.target.label = "cpu:0";
  bench.peaks = {{Peak::bandwidth, 1e9}, {Peak::quantised, 1e6}};
  BenchResult r;
  r.verdict = {status, "why", 0, 1, {}};
  r.fast = true;
  r.seconds = {0.09, 0.1, 0.2};
  bench.rows = {{&c, r}};
  return bench;
}

TEST(BenchTable, RatesAreOfTheMedian) {
  Case c = product(QUERN_Q8_0);
  c.name = "x.y";
  const auto json = nlohmann::json::parse(bench_json({}, {measured(c, Status::pass)}));
  const auto& row = json.at("devices").at(0).at("cases").at(0);
  EXPECT_DOUBLE_EQ(row.at("flops_per_second"), work_of(c).flops / 0.1);
  EXPECT_DOUBLE_EQ(row.at("share_of_flops"), work_of(c).flops / 0.1 / 1e6);
  EXPECT_DOUBLE_EQ(row.at("share_of_bandwidth"), work_of(c).bytes / 0.1 / 1e9);
}

TEST(BenchTable, AResultThatIsWrongIsNamed) {
  Case c = product(QUERN_Q8_0);
  c.name = "x.y";
  const std::string text = bench_text(measured(c, Status::fail));
  EXPECT_NE(text.find("not green: x.y\n    why"), std::string::npos) << text;
}

TEST(Seed, ChangesTheDataOfACase) {
  const Case* found = table().find("elementwise.add.f32.1.plain.packed.gaussian");
  ASSERT_NE(found, nullptr);
  const Case& c = *found;
  std::vector<std::byte> zero(input_bytes(c)), one(input_bytes(c)), again(input_bytes(c));
  fill_data(c, map_data(c, zero), 0);
  fill_data(c, map_data(c, one), 1);
  fill_data(c, map_data(c, again), 1);
  EXPECT_NE(zero, one);
  EXPECT_EQ(one, again);
  EXPECT_EQ(seeded_name(c, 0), c.name);
  EXPECT_EQ(seeded_name(c, 1), c.name + "#1");
}

}  // namespace
}  // namespace quern::conformance
