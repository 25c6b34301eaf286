// What quern bench prints and draws of what it measured.
#include "bench_report.hpp"
#include "command_line.hpp"
#include "environment.hpp"
#include "failure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace quern::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

CommandLine bench_line(
    std::vector<std::string> flags, const Environment& environment = [](const char*) { return std::optional<std::string>(); }) {
  flags.insert(flags.begin(), {"bench", "m"});
  return parse_command_line(flags, "", environment);
}

/// A decode that reaches half of what its bandwidth allows, and a prefill a quarter of its peak.
BenchRun run_of(std::uint32_t threads, std::uint32_t batch, std::uint64_t depth, double decode) {
  BenchRun run{{"models/a.gguf", "cpu", "cpu:0", "avx2"}, {}, {}};
  run.options.batch = batch;
  run.options.depth = depth;
  run.options.prompt_tokens = 512;
  run.options.decode_tokens = 128;
  run.options.repetitions = 5;
  run.result.threads = threads;
  run.result.decode = {decode, 1, decode + 1, decode - 1};
  run.result.prefill = {10 * decode, 2, 10 * decode + 2, 10 * decode - 2};
  run.result.bytes_per_step = 1000;
  run.result.read_bytes_per_second = 2000 * decode / batch;
  run.result.multiply_adds_per_token = 100;
  run.result.multiply_adds_per_second = 4000 * decode;
  run.result.decode_bandwidth_share = 0.5;
  run.result.prefill_peak_share = 0.25;
  run.result.valid = 1;
  return run;
}

TEST(BenchPlans, AreEveryCombinationAndPairPromptsWithAnswers) {
  const CommandLine line = bench_line({"-p", "64,512", "-n", "128", "-d", "0,4096", "-b", "1,8", "-t", "1,2", "-r", "3"});
  const std::vector<BenchPlan> plans = bench_plans(line.bench.lists);
  ASSERT_EQ(plans.size(), 16u);
  EXPECT_EQ(plans.front().threads, 1u);
  EXPECT_EQ(plans.back().threads, 2u);
  EXPECT_EQ(plans[1].options.prompt_tokens, 512u);
  EXPECT_EQ(plans[1].options.decode_tokens, 128u);
  EXPECT_EQ(plans[2].options.depth, 4096u);
  EXPECT_EQ(plans[4].options.batch, 8u);
  EXPECT_EQ(plans[0].options.repetitions, 3u);
  EXPECT_EQ(line.settings.count("threads"), 0u);  // a list is the verb's own
  EXPECT_EQ(bench_line({"-t", "2"}).settings.at("threads"), "2");
}

TEST(BenchPlans, ListsComeFromVariablesAndRepeatedFlagsToo) {
  EXPECT_EQ(bench_line({"-p", "1", "-p", "2,3"}).bench.lists.prompts, (std::vector{1u, 2u, 3u}));
  const auto variable = [](const char* name) {
    return name == std::string("QUERN_DEPTH") ? std::optional<std::string>("0,7") : std::nullopt;
  };
  EXPECT_EQ(bench_line({}, variable).bench.lists.depths, (std::vector<std::uint64_t>{0, 7}));
}

TEST(BenchPlans, WhatIsNoListIsRefusedWithThePartThatIsWrong) {
  const auto refused = [](const std::vector<std::string>& flags) {
    try {
      bench_line(flags);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), exit_usage);
      return std::string(failure.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refused({"-p", "64,x"}), HasSubstr("--prompt-tokens: 'x' is not a whole number from 1"));
  EXPECT_THAT(refused({"-b", "1,,2"}), HasSubstr("--batch: '' is not"));
  EXPECT_THAT(refused({"-d", "-1"}), HasSubstr("-1"));
  EXPECT_THAT(refused({"-t", "1,0"}), HasSubstr("--threads: '0' is not"));
  EXPECT_THAT(refused({"--json", "--format", "csv"}), HasSubstr("--json is --format json"));
  std::string many = "1";
  for (int i = 0; i < 40; ++i) many += ",1";
  EXPECT_THAT(refused({"-p", many, "-b", many}), HasSubstr("1681 measurements, and 1000 are the most"));
}

TEST(BenchReport, OneBenchIsItsObjectAndSeveralAreRuns) {
  const std::vector<BenchRun> runs = {run_of(1, 1, 0, 40), run_of(2, 1, 0, 80)};
  EXPECT_EQ(bench_runs_json({runs[0]}), bench_json(runs[0].where, runs[0].options, runs[0].result));
  const Json json = bench_runs_json(runs);
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][1]["threads"], 2);
  EXPECT_EQ(json["device"], "cpu:0");
}

TEST(BenchReport, MarkdownAndTableHaveARowABenchAndCsvEveryNumber) {
  const std::vector<BenchRun> runs = {run_of(1, 1, 4096, 40), run_of(2, 1, 4096, 80)};
  EXPECT_THAT(bench_table(runs),
              HasSubstr("      2      1  4,096     512    800.00 +- 2.00   25.0 %     128    80.00 +- 1.00        50.0 %\n"));
  EXPECT_THAT(bench_markdown(runs),
              HasSubstr("|       2 |     1 | 4,096 |    512 |   800.00 +- 2.00 |  25.0 % |    128 |   80.00 +- 1.00 |       50.0 % |\n"));
  const std::string csv = bench_csv(runs);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3);
  const auto fields = [](std::string line) { return std::ranges::count(line, ','); };
  EXPECT_EQ(fields(csv.substr(0, csv.find('\n'))), fields(csv.substr(csv.rfind('\n', csv.size() - 2))));
}

TEST(BenchReport, NamesOfOthersBreakNoFormat) {
  BenchRun run = run_of(1, 1, 0, 40);
  run.where.model = "=cmd|x\",\n<script>|*.gguf";
  run.where.device = "<b>";
  EXPECT_THAT(bench_csv({run}), HasSubstr("\"'=cmd|x\"\",\n<script>|*.gguf\""));
  EXPECT_THAT(bench_markdown({run}), HasSubstr("\\<script\\>\\|\\*.gguf"));
  EXPECT_THAT(bench_plot({run, run}), Not(HasSubstr("<script>")));
}

TEST(BenchPlot, HasAChartAPhaseForEachNumberThatVariesWithTheMeasuredLimit) {
  const auto count = [](const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
    return found;
  };
  std::vector<BenchRun> runs;
  for (const std::uint32_t threads : {1u, 2u})
    for (const std::uint64_t depth : {0u, 4096u}) runs.push_back(run_of(threads, 1, depth, 40.0 * threads));
  const std::string plot = bench_plot(runs);
  EXPECT_EQ(count(plot, ">decode</text>"), 2u);  // over depth, over threads
  EXPECT_EQ(count(plot, ">prefill</text>"), 2u);
  EXPECT_EQ(count(plot, "curve limit\""), 12u);  // two curves in each of four charts, and their legends
  EXPECT_THAT(plot, HasSubstr("1 thread</text>"));
  EXPECT_THAT(plot, HasSubstr("4,096 deep</text>"));
  std::vector<BenchRun> many;
  for (std::uint32_t threads = 1; threads <= 16; ++threads)
    for (const std::uint64_t depth : {0u, 4096u}) many.push_back(run_of(threads, 1, depth, 40.0 * threads));
  EXPECT_EQ(count(bench_plot(many), "\"s0 curve\""), count(plot, "\"s0 curve\""));  // the ninth curve has another look than the first
  BenchRun far = run_of(1, 1, 0, 40);
  far.result.multiply_adds_per_second *= 10;
  EXPECT_THAT(bench_plot({far}), HasSubstr("each line ten times the one below"));  // else the curve would lie on the axis
  EXPECT_THAT(plot, Not(HasSubstr("each line ten times")));
  BenchRun unknown = run_of(1, 1, 0, 40);
  unknown.result.read_bytes_per_second = unknown.result.multiply_adds_per_second = 0;
  const std::string alone = bench_plot({unknown});
  EXPECT_EQ(count(alone, "curve limit\""), 0u);  // a limit that was not measured is not drawn
  EXPECT_EQ(count(alone, "<circle"), 2u);
}

}  // namespace
}  // namespace quern::cli
