// The JSON objects of --json, made from plain data. Their members are an interface: they are in quern(1), and
// tests/cli/shapes_test.cpp pins them.
#pragma once

#include "output.hpp"

#include "quern.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

using Ids = std::span<const std::int32_t>;

/// Where a model runs, as run, eval and bench report it.
struct RanOn {
  std::string model;
  std::string backend;
  std::string device;
  std::string kernels;
};

struct Alternative {
  std::int32_t id;
  float logprob;
};

struct RunReport {
  RanOn where;
  Ids prompt_ids;
  Ids ids;
  std::string_view text;
  std::string finish;
  std::uint64_t seed = 0;
  std::uint64_t reused_tokens = 0;
  double load_seconds = 0;
  double prompt_seconds = 0;
  double decode_seconds = 0;
  std::vector<float> logprobs;                 // empty unless asked for
  std::vector<std::vector<Alternative>> best;  // one list for each token; empty unless asked for
  Json statistics;
  Json plan;  // null unless asked for
};

Json run_json(const RunReport& report);

/// "logprob" and "best" of one token.
void put_logprob(Json& json, float logprob, const std::vector<Alternative>& best);

/// {"ids"}, and "text" where a chat was rendered.
Json tokenize_json(Ids ids, const std::string* rendered);

/// Members that need a prediction are null for a single token.
Json eval_json(const RanOn& where, const quern_evaluation_info& info, bool positions);

Json bench_json(const RanOn& where, const quern_bench_options& options, const quern_bench_result& result);

struct DtypeBytes {
  std::string name;
  std::uint64_t bytes;
  bool available;
};

Json estimate_json(const quern_estimate_info& info, const std::vector<DtypeBytes>& dtypes);

/// Tokens per second; 0 where no time was measured.
double rate(std::uint64_t tokens, double seconds);

}  // namespace quern::cli
