// From settings to examples, and from examples to the rows that a device reads.
#pragma once

#include "training_engine.hpp"
#include "vocabulary.hpp"

#include "quern/training/examples.hpp"
#include "quern/training/settings.hpp"

#include <span>
#include <string>

namespace quern::runtime {

/// Reads and encodes what the settings name. Throws what training::load() throws.
training::TrainingData load_training_data(const training::Settings& settings, const Vocabulary& vocabulary, std::uint32_t sequence_len);

/// A sum over the ids and weights of all examples, in their order.
std::string sum_of(const training::Dataset& data);

/// The examples one behind the other. Each label's weight is divided by `divisor`.
MicroBatch rows_of(const training::Dataset& data, std::span<const std::uint32_t> examples, double divisor);

}  // namespace quern::runtime
