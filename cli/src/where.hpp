// Where a model ran, from what executed and not from what was planned.
#pragma once

#include "engine.hpp"
#include "shapes.hpp"

#include <string>

namespace quern::cli {

struct Where {
  RanOn ran_on;
  std::string description;  // the device's product name
  std::string choice;       // placement_choice()
  Json statistics;
};

/// Reads the session's statistics; before anything ran, the model's placement.
Where where_it_ran(const quern_model* model, quern_session* session, const std::string& path);

/// Why the model is where it is, and what crosses between devices; empty where the first device in rank has all of it.
std::string placement_choice(const quern_model* model);

/// What the model's steps are, for --explain.
std::string plan_words(const quern_model* model);
Json plan_json(const quern_model* model);

/// "cpu on cpu:0 (AMD EPYC), kernels avx2: 41.2 tokens/s generated", and the choice behind it.
std::string closing_line(const Where& where, double tokens_per_second, const std::string& what);

}  // namespace quern::cli
