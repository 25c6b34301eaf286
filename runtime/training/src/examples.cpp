// Files to datasets: what is kept, what is dropped, and the counts.
#include "quern/training/examples.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/training/data_files.hpp"
#include "quern/training/order.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace quern::training {

namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// Cuts labels off behind `size` tokens.
void truncate(Example& example, std::uint32_t size) {
  example.ids.resize(size);
  std::erase_if(example.labels, [&](const LabelSpan& span) { return span.begin >= size; });
  if (!example.labels.empty()) example.labels.back().end = std::min(example.labels.back().end, size);
}

/// Reads the files of one dataset.
class Loader {
 public:
  Loader(const DataOptions& options, const ExampleEncoder& encoder) : options_(options), encoder_(encoder) {}

  void add_file(const std::string& path, const DatasetOptions& dataset);
  Dataset take() { return std::move(data_); }

 private:
  void read_example(const RawExample& raw, const std::string& where, const DatasetOptions& dataset, ExampleType& type);
  void keep(ExampleEncoder::Encoded encoded, std::uint64_t line, const std::string& where);
  void count_bad(const Error& error, const DatasetOptions& dataset);

  const DataOptions& options_;
  const ExampleEncoder& encoder_;
  Dataset data_;
};

void Loader::count_bad(const Error& error, const DatasetOptions& dataset) {
  if (!dataset.skip_bad_lines) throw error;
  if (data_.summary.first_problem.empty()) data_.summary.first_problem = error.what();
  ++data_.summary.bad;
}

void Loader::add_file(const std::string& path, const DatasetOptions& dataset) {
  const DataText text = read_data_file(path);
  data_.files.push_back(text.name);
  ExampleReader reader(text);
  ExampleType type = dataset.type;
  const std::uint64_t before = data_.summary.read;
  for (;;) {
    try {
      const std::optional<RawExample> raw = reader.next();
      if (!raw) break;
      ++data_.summary.read;
      read_example(*raw, concat(text.name, ":", raw->line), dataset, type);
    } catch (const Error& error) {
      if (reader.is_broken()) throw;
      count_bad(error, dataset);
    }
  }
  if (data_.summary.read == before)
    throw Error(QUERN_BAD_MODEL, concat(text.name, ": has no examples; a line or an entry of the list is one"));
}

void Loader::read_example(const RawExample& raw, const std::string& where, const DatasetOptions& dataset, ExampleType& type) {
  std::string why;
  const std::optional<Json> json = Json::parse(raw.json, Json::most_values, &why);
  if (!json) throw Error(QUERN_BAD_MODEL, concat(where, ": the example is ", why));
  std::optional<ExampleEncoder::Encoded> encoded;
  try {
    if (type == ExampleType::detect) type = detect_type(*json, dataset.fields);
    encoded = encoder_.encode(read_record(*json, type, dataset), dataset);
  } catch (const Error& error) { throw Error(error.code(), concat(where, ": ", error.what())); }
  keep(*std::move(encoded), raw.line, where);
}

void Loader::keep(ExampleEncoder::Encoded encoded, std::uint64_t line, const std::string& where) {
  DataSummary& summary = data_.summary;
  Example& example = encoded.example;
  example.file = static_cast<std::uint32_t>(data_.files.size() - 1);
  example.line = line;
  if (example.ids.size() > summary.longest) {
    summary.longest = example.ids.size();
    summary.longest_at = {data_.files.back(), line};
  }
  // Before the length: an example that never had a label is not one that a longer sequence_len would save.
  if (example.labels.empty()) {
    ++summary.without_labels;
    return;
  }
  if (example.ids.size() > options_.sequence_len) {
    if (options_.excess_length == ExcessLength::raise)
      throw Error(QUERN_INVALID_ARGUMENT, concat(where, ": the example has ", example.ids.size(), " tokens, and sequence_len is ",
                                                 options_.sequence_len, "; excess_length_strategy: raise refuses it"));
    if (options_.excess_length == ExcessLength::drop) {
      ++summary.too_long;
      return;
    }
    truncate(example, options_.sequence_len);
    if (example.labels.empty()) {
      ++summary.without_labels;
      return;
    }
    ++summary.truncated;
  }
  ++summary.kept;
  summary.melted += encoded.melted ? 1 : 0;
  summary.open_answers += encoded.open_answers;
  summary.tokens += example.ids.size();
  summary.labelled += example.labelled();
  data_.examples.push_back(std::move(example));
}

/// The counts of what was dropped, for the error that nothing is left.
std::string counts_of(const DataSummary& summary, std::uint32_t sequence_len) {
  return concat(summary.read, " examples were read; ", summary.bad, " are bad, ", summary.too_long, " have more than ", sequence_len,
                " tokens, and ", summary.without_labels, " have no token that counts",
                summary.longest > sequence_len ? " (raise sequence_len or truncate)" : "");
}

void require_examples(const Dataset& data, const char* role, std::uint32_t sequence_len) {
  if (!data.examples.empty()) return;
  const std::string first = data.summary.first_problem.empty() ? "" : "; the first problem: " + data.summary.first_problem;
  throw Error(QUERN_BAD_MODEL, concat(data.files.empty() ? "no file" : data.files.front(), ": no example is left ", role, ": ",
                                      counts_of(data.summary, sequence_len), first));
}

std::uint32_t validation_count(double asked, std::size_t examples) {
  if (!(asked >= 0) || asked > UINT32_MAX)
    throw Error(QUERN_INVALID_ARGUMENT, concat("val_set_size is ", asked, "; it is a share below 1 or a number"));
  return static_cast<std::uint32_t>(asked < 1 ? std::ceil(asked * static_cast<double>(examples)) : asked);
}

/// Moves the validation examples out of `train`.
void split(TrainingData& data, std::uint32_t count, std::uint64_t seed) {
  std::vector<Example>& all = data.train.examples;
  const Split parts = split_examples(static_cast<std::uint32_t>(all.size()), count, seed);
  std::vector<Example> train;
  for (const std::uint32_t number : parts.train) train.push_back(std::move(all[number]));
  for (const std::uint32_t number : parts.validation) data.validation.examples.push_back(std::move(all[number]));
  all = std::move(train);
  data.validation.files = data.train.files;
}

}  // namespace

std::string Dataset::where(const Example& example) const { return concat(files[example.file], ":", example.line); }

std::vector<std::uint32_t> Dataset::lengths() const {
  std::vector<std::uint32_t> lengths;
  lengths.reserve(examples.size());
  for (const Example& example : examples) lengths.push_back(static_cast<std::uint32_t>(example.ids.size()));
  return lengths;
}

std::vector<std::string> DataSummary::warnings() const {
  std::vector<std::string> sentences;
  if (dropped() * 20 > read)
    sentences.push_back(concat(dropped(), " of ", read, " examples are dropped: ", bad, " are bad, ", too_long, " are too long, and ",
                               without_labels, " have no token that counts"));
  if (truncated > 0)
    sentences.push_back(concat(truncated, " of ", read, " examples are cut; the longest has ", longest, " tokens (", longest_at.file, ":",
                               longest_at.line, ")"));
  if (melted > 0)
    sentences.push_back(concat(melted, " of ", kept,
                               " examples have an answer that shares its first token with the text in front of it, which does not count"));
  if (open_answers > 0)
    sentences.push_back(concat(open_answers,
                               " answers are followed by no token that ends a turn, so that the model does not learn to end there"));
  return sentences;
}

TrainingData load(const DataOptions& options, const TextModel& model) {
  if (options.datasets.empty()) throw Error(QUERN_INVALID_ARGUMENT, "datasets is empty; name at least one file to train on");
  if (options.sequence_len < 2)
    throw Error(QUERN_INVALID_ARGUMENT, concat("sequence_len is ", options.sequence_len, "; it has to be 2 or more"));
  if (options.val_set_size != 0 && !options.test_datasets.empty())
    throw Error(QUERN_INVALID_ARGUMENT, "val_set_size and test_datasets are both given; the validation set comes from one of them");
  const ExampleEncoder encoder(options, model);
  Loader train(options, encoder), validation(options, encoder);
  bool has_validation = false;
  for (const DatasetOptions& dataset : options.datasets) {
    if (!is_folder(dataset.path)) {
      train.add_file(dataset.path, dataset);
      continue;
    }
    const auto file = file_in_folder(dataset.path, FolderPart::train);
    if (!file) throw Error(QUERN_NOT_FOUND, concat(dataset.path, ": the folder has no file train.jsonl or train.json"));
    train.add_file(*file, dataset);
    if (!options.test_datasets.empty() || options.val_set_size != 0) continue;
    if (const auto other = file_in_folder(dataset.path, FolderPart::validation)) {
      validation.add_file(*other, dataset);
      has_validation = true;
    }
  }
  for (const DatasetOptions& dataset : options.test_datasets) {
    std::optional<std::string> file = dataset.path;
    if (is_folder(dataset.path)) {
      file = file_in_folder(dataset.path, FolderPart::validation);
      if (!file) file = file_in_folder(dataset.path, FolderPart::test);
      if (!file) throw Error(QUERN_NOT_FOUND, concat(dataset.path, ": the folder has no file valid.jsonl, validation.jsonl or test.jsonl"));
    }
    validation.add_file(*file, dataset);
    has_validation = true;
  }
  TrainingData data{train.take(), validation.take()};
  require_examples(data.train, "to train on", options.sequence_len);
  if (has_validation) require_examples(data.validation, "for validation", options.sequence_len);
  if (data.train.examples.size() >= UINT32_MAX) throw Error(QUERN_INVALID_ARGUMENT, "there are more examples than 32 bits count");
  if (const std::uint32_t count = validation_count(options.val_set_size, data.train.examples.size()); count > 0)
    split(data, count, options.seed);
  return data;
}

}  // namespace quern::training
