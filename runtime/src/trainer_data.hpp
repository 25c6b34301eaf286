// From settings to examples, and from examples to the rows that a device reads.
#pragma once

#include "training_engine.hpp"
#include "vocabulary.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/peft.hpp"
#include "quern/training/examples.hpp"
#include "quern/training/settings.hpp"

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// Reads and encodes what the settings name. Throws what training::load() throws.
training::TrainingData load_training_data(const training::Settings& settings, const Vocabulary& vocabulary, std::uint32_t sequence_len);

/// A sum over the ids and weights of all examples, in their order.
std::string sum_of(const training::Dataset& data);

/// The examples one behind the other. Each label's weight is divided by `divisor`.
MicroBatch rows_of(const training::Dataset& data, std::span<const std::uint32_t> examples, double divisor);

/// Puts a matrix of an adapter where a layout has it.
void write_matrix(TrainingEngine& engine, const peft::BaseShape& base, const models::AdapterPlace& place,
                  const peft::AdapterMatrix& matrix);

/// The sum of the `count` largest.
std::uint64_t sum_of_largest(std::vector<std::uint32_t> sizes, std::size_t count);
/// Throws Error(QUERN_UNSUPPORTED) for more rows than a micro-batch may have.
std::uint32_t rows_or_refuse(std::uint64_t rows, const char* of);
/// What the settings say of rows; with `automatic` the engine chooses.
void set_precision(TrainingEngineOptions& options, training::Precision precision);
double seconds_since(std::chrono::steady_clock::time_point start);

/// The members precision, the type of rows and products, and precision_reason, why it is that one.
void write_precision_members(JsonWriter& json, const TrainingEngine& engine);

/// The members of a data set's object: examples, tokens, labels, longest, and what was left out.
void write_data_members(JsonWriter& json, const training::Dataset& data);

}  // namespace quern::runtime
