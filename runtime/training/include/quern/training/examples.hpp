// Examples as the trainer reads them: token ids, and which of them the loss counts.
#pragma once

#include "quern/training/data_options.hpp"
#include "quern/training/rendering.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::training {

/// Tokens from `begin` to the one before `end` count `weight` each, as targets: token t is what position t - 1 predicts.
struct LabelSpan {
  std::uint32_t begin = 0, end = 0;
  float weight = 1;
  bool operator==(const LabelSpan&) const = default;
};

/// One example. The first token is never a target, since nothing predicts it.
struct Example {
  std::vector<std::int32_t> ids;
  std::vector<LabelSpan> labels;  // in order, apart, begin >= 1, end <= ids.size(), weight > 0
  std::uint32_t file = 0;         // in Dataset::files
  std::uint64_t line = 0;         // from 1

  std::uint64_t labelled() const noexcept;
  double weight() const noexcept;  // the sum over all targets: its part of W
  /// Of each token as a target, ids.size() of them.
  void fill_weights(std::span<float> weights) const;
};

/// Where an example was read.
struct Place {
  std::string file;
  std::uint64_t line = 0;
};

/// What happened to the examples of a dataset. The counts are of examples, unless they say otherwise.
struct DataSummary {
  std::uint64_t read = 0;  // all that the files hold
  std::uint64_t kept = 0;
  std::uint64_t bad = 0;       // not readable or not renderable, with skip_bad_lines
  std::uint64_t too_long = 0;  // dropped
  std::uint64_t truncated = 0;
  std::uint64_t without_labels = 0;        // dropped
  std::uint64_t melted = 0;                // kept: a token in front of an answer holds the start of it, and does not count
  std::uint64_t open_answers = 0;          // answers behind which no token ends the turn
  std::uint64_t tokens = 0, labelled = 0;  // of those kept
  std::uint64_t longest = 0;               // tokens of the longest before anything is cut
  Place longest_at;
  std::string first_problem;  // of the first bad one, with file and line

  std::uint64_t dropped() const noexcept { return bad + too_long + without_labels; }
  /// Sentences for the user, such as that more than 5 % of the examples are dropped.
  std::vector<std::string> warnings() const;
};

struct Dataset {
  std::vector<Example> examples;
  std::vector<std::string> files;
  DataSummary summary;

  /// "FILE:LINE" of an example.
  std::string where(const Example& example) const;
  std::vector<std::uint32_t> lengths() const;
};

struct TrainingData {
  Dataset train;
  Dataset validation;  // may have no examples; those that val_set_size takes are counted in the summary of `train`
};

/// Encodes examples for one model.
class ExampleEncoder {
 public:
  /// `options` and the tokenizer have to outlive it. A template is parsed at once where the model has one.
  ExampleEncoder(const DataOptions& options, const TextModel& model);

  struct Encoded {
    Example example;  // whole, without file and line
    bool melted = false;
    std::uint32_t open_answers = 0;
  };
  /// Throws Error without file and line for what cannot be rendered, for ids that are not in the vocabulary, and for special tokens in a
  /// message where `special_tokens_in_content` is refuse.
  Encoded encode(const Record& record, const DatasetOptions& dataset) const;

 private:
  Encoded encode_chat(const ChatRecord& record, const DatasetOptions& dataset) const;
  Encoded encode_text(const TextRecord& record, const DatasetOptions& dataset) const;
  Encoded encode_tokens(const TokenRecord& record, const DatasetOptions& dataset) const;

  const DataOptions& options_;
  TextModel model_;
  std::optional<ChatRenderer> renderer_;
};

/// Reads the files, encodes every example, applies the length strategy and drops what has no labels.
///
/// A folder in `datasets` stands for its train file, and for validation too by its valid or validation file unless test_datasets are given.
/// Throws Error naming file and line: QUERN_BAD_MODEL for an example that cannot be read (unless skip_bad_lines) and where no example is left
/// to train on, with the counts; QUERN_INVALID_ARGUMENT for options that contradict each other and, with raise, for an example that is too
/// long; what check_read() throws for files.
TrainingData load(const DataOptions& options, const TextModel& model);

}  // namespace quern::training
