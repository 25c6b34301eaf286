// What quern bench measured, as a page, a table, Markdown, CSV, JSON or a plot. Pure.
#pragma once

#include "shapes.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::cli {

/// `page` is for people: the page of one bench, the table of several.
enum class BenchFormat { page, table, markdown, csv, json };

/// What one bench is of, as the flags gave it.
struct BenchPlan {
  std::uint32_t threads = 0;  // 0: what the settings choose
  quern_bench_options options{};
};

struct BenchRun {
  RanOn where;
  quern_bench_options options{};
  quern_bench_result result{};
  Json plan = {};  // null unless asked for
};

/// The lists of the flags.
struct BenchLists {
  std::vector<std::uint32_t> prompts, decodes, batches, threads;
  std::vector<std::uint64_t> depths;
  std::uint32_t repetitions = 5;
};

constexpr std::uint64_t most_benches = 1000;

/// Every combination of threads, batch, depth, and prompt with decode; the n-th prompt goes with the n-th decode, and the shorter of these two
/// lists repeats its last number. In the order threads, batch, depth, prompt. Throws Failure(exit_usage) for more than most_benches.
std::vector<BenchPlan> bench_plans(const BenchLists& lists);

/// The page for people of one bench.
std::string bench_page(const BenchRun& run);
/// A row a bench. Of one model.
std::string bench_table(const std::vector<BenchRun>& runs);
std::string bench_markdown(const std::vector<BenchRun>& runs);
/// With a line of names, which are those of the JSON.
std::string bench_csv(const std::vector<BenchRun>& runs);
/// Of one bench its object; of several {model, backend, "runs": [objects]}.
Json bench_runs_json(const std::vector<BenchRun>& runs);
/// An SVG file: prefill and decode over each of depth, batch, threads and prompt tokens that varies (of a single bench over depth), with the
/// measured limits.
std::string bench_plot(const std::vector<BenchRun>& runs);

}  // namespace quern::cli
