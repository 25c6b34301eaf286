// See trainer_data.hpp.
#include "trainer_data.hpp"

#include "adapters.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/sha256.hpp"

#include <algorithm>
#include <functional>

namespace quern::runtime {
namespace {

constexpr std::uint64_t most_rows = 0x7fffffff;  // their numbers are i32

void take(std::string& name, const std::string& given) {
  if (!given.empty()) name = given;
}

training::DatasetOptions options_of(const training::DatasetSettings& from, const training::Settings& settings) {
  training::DatasetOptions to;
  to.path = from.path;
  to.type = from.type;
  to.fields.messages = from.field_messages;
  take(to.fields.instruction, from.field_instruction);
  take(to.fields.input, from.field_input);
  take(to.fields.output, from.field_output);
  take(to.fields.system, from.field_system);
  take(to.fields.training, from.message_field_training);
  if (!from.field.empty()) to.fields.text = from.field;
  for (const auto& [ours, theirs] : from.message_property_mappings) {
    if (ours == "role") to.fields.role = theirs;
    else if (ours == "content") to.fields.content = theirs;
    else throw Error(QUERN_UNSUPPORTED, concat("message_property_mappings: '", ours, "' cannot be renamed; role and content can"));
  }
  to.prompt_style = from.alpaca_prompt ? training::PromptStyle::alpaca : training::PromptStyle::chat;
  to.roles_to_train = from.roles_to_train;
  to.train_on_eos = from.train_on_eos;
  to.train_on_inputs = settings.train_on_inputs;
  to.mask_template_text = from.mask_template_text;
  to.special_tokens_in_content = from.special_tokens_in_content;
  to.skip_bad_lines = from.skip_bad_lines;
  return to;
}

/// A template's text, or the file that has it.
std::optional<std::string> template_of(const training::Settings& settings, const Vocabulary& vocabulary) {
  if (settings.chat_template.empty()) return vocabulary.template_source();
  if (settings.chat_template.find("{%") != std::string::npos || settings.chat_template.find("{{") != std::string::npos)
    return settings.chat_template;
  std::string text;
  check_read(base::read_file(settings.chat_template, text, {.most = 1 << 20}));
  return text;
}

}  // namespace

training::TrainingData load_training_data(const training::Settings& settings, const Vocabulary& vocabulary, std::uint32_t sequence_len) {
  training::DataOptions options;
  for (const training::DatasetSettings& one : settings.datasets) options.datasets.push_back(options_of(one, settings));
  for (const training::DatasetSettings& one : settings.test_datasets) options.test_datasets.push_back(options_of(one, settings));
  options.val_set_size = settings.val_set_size;
  options.sequence_len = sequence_len;
  options.excess_length = settings.excess_length_strategy;
  options.seed = settings.seed;
  if (options.datasets.empty()) throw Error(QUERN_INVALID_ARGUMENT, "datasets is missing: a list of files to learn from");
  return training::load(
      options, {.tokenizer = vocabulary.tokenizer(), .chat_template = template_of(settings, vocabulary), .name = vocabulary.file_name()});
}

std::string sum_of(const training::Dataset& data) {
  Sha256 sum;
  std::vector<float> weights;
  for (const training::Example& example : data.examples) {
    const std::uint64_t size = example.ids.size();
    weights.resize(size);
    example.fill_weights(weights);
    sum.add(std::as_bytes(std::span(&size, 1)));
    sum.add(std::as_bytes(std::span(example.ids)));
    sum.add(std::as_bytes(std::span(weights)));
  }
  return sum.finish();
}

MicroBatch rows_of(const training::Dataset& data, std::span<const std::uint32_t> examples, double divisor) {
  MicroBatch batch;
  for (const std::uint32_t number : examples) {
    const training::Example& example = data.examples.at(number);
    const auto first = static_cast<std::uint32_t>(batch.tokens.size());
    batch.starts.push_back(first);
    batch.tokens.insert(batch.tokens.end(), example.ids.begin(), example.ids.end());
    for (const training::LabelSpan& span : example.labels) {
      for (std::uint32_t t = span.begin; t < span.end; ++t) {
        batch.label_rows.push_back(static_cast<std::int32_t>(first + t - 1));
        batch.labels.push_back(example.ids[t]);
        batch.label_weights.push_back(static_cast<float>(span.weight / divisor));
      }
    }
  }
  return batch;
}

void write_matrix(TrainingEngine& engine, const peft::BaseShape& base, const models::AdapterPlace& place,
                  const peft::AdapterMatrix& matrix) {
  engine.write_trained(place.a, matrix.a);
  engine.write_trained(place.b, in_file_order(base, matrix.target, matrix.b, matrix.rank, true));
}

std::uint64_t sum_of_largest(std::vector<std::uint32_t> sizes, std::size_t count) {
  count = std::min(count, sizes.size());
  std::ranges::nth_element(sizes, sizes.begin() + static_cast<std::ptrdiff_t>(count), std::greater());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += sizes[i];
  return sum;
}

std::uint32_t rows_or_refuse(std::uint64_t rows, const char* of) {
  if (rows <= most_rows) return static_cast<std::uint32_t>(rows);
  throw Error(QUERN_UNSUPPORTED, concat("a micro-batch of ", of, " may have ", rows, " rows, and ", most_rows,
                                        " are possible; lower micro_batch_size (and raise gradient_accumulation_steps) or sequence_len"));
}

void set_precision(TrainingEngineOptions& options, training::Precision precision) {
  options.rows_by_device = precision == training::Precision::automatic;
  if (precision == training::Precision::bf16) options.graph.activations = QUERN_BF16;
  else if (precision == training::Precision::fp16) options.graph.activations = QUERN_F16;
  else options.graph.activations = QUERN_F32;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_precision_members(JsonWriter& json, const TrainingEngine& engine) {
  json.member("precision", graph::dtype_name(engine.rows()));
  json.member("precision_reason", engine.reason_of_rows().empty() ? std::string("the settings ask for it") : engine.reason_of_rows());
}

void write_data_members(JsonWriter& json, const training::Dataset& data) {
  const training::DataSummary& summary = data.summary;
  json.member("examples", data.examples.size());
  json.member("tokens", summary.tokens);
  json.member("labels", summary.labelled);
  json.member("longest", summary.longest);
  json.member("dropped_long", summary.too_long);
  json.member("truncated", summary.truncated);
  json.member("dropped_unlabelled", summary.without_labels);
  json.member("bad_lines", summary.bad);
}

}  // namespace quern::runtime
