// See data_loss.hpp.
#include "data_loss.hpp"

#include "adapters.hpp"
#include "trainer_data.hpp"
#include "vocabulary.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/gguf.hpp"
#include "quern/models/peft.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace quern::runtime {
namespace {

models::TrainedLayout layout_of_adapter(const peft::Adapter& adapter, double scale) {
  std::vector<models::AdapterPlace> places;
  for (const peft::AdapterMatrix& matrix : adapter.matrices)
    places.push_back({.layer = matrix.layer,
                      .part = std::string(peft::gguf_name(matrix.target)),
                      .rank = matrix.rank,
                      .inputs = matrix.inputs,
                      .outputs = matrix.outputs,
                      .scale = scale * adapter.scale(matrix)});
  return models::adapter_layout(std::move(places));
}

TrainingEngineOptions options_for(const training::Dataset& data, const training::Settings& settings, const models::Hyperparameters& shape) {
  const std::uint64_t rows = sum_of_largest(data.lengths(), settings.micro_batch_size);
  TrainingEngineOptions options;
  options.trains = false;
  options.graph.max_tokens = rows_or_refuse(std::max<std::uint64_t>(1, rows), "the data");
  options.graph.chunk_labels = std::min(options.graph.max_tokens, models::labels_of_chunk(shape.vocabulary));
  set_precision(options, settings.precision);
  return options;
}

}  // namespace

DataLoss data_loss(TrainingEngine& engine, const training::Dataset& data, std::uint32_t micro_batch_size,
                   const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  DataLoss result;
  double loss = 0, weight = 0;
  std::vector<std::uint32_t> batch;
  const auto count = static_cast<std::uint32_t>(data.examples.size());
  for (std::uint32_t first = 0; first < count; first += micro_batch_size) {
    batch.clear();
    for (std::uint32_t e = first; e < std::min(count, first + micro_batch_size); ++e) batch.push_back(e);
    for (const std::uint32_t e : batch) weight += data.examples[e].weight(), result.labels += data.examples[e].labelled();
    loss += engine.evaluate(rows_of(data, batch, 1));
    if (progress && !progress(first + batch.size(), count)) throw Error(QUERN_CANCELLED, "the evaluation was cancelled");
  }
  result.loss = loss / weight;
  result.seconds = seconds_since(start);
  return result;
}

std::string evaluate_data_json(std::shared_ptr<Runtime> runtime, const std::string& base_path, const training::Settings& settings,
                               const std::optional<ScaledAdapter>& adapter, const TrainingCallbacks& callbacks) {
  const gguf::File file = models::open_model(base_path);
  const models::Hyperparameters shape = models::read_hyperparameters(file);
  const peft::BaseShape base = peft::base_shape(shape);
  const peft::Adapter read = adapter ? read_adapter(adapter->path, base) : peft::Adapter();
  training::TrainingData all =
      load_training_data(settings, Vocabulary(file), std::min(settings.sequence_len.value_or(2048), shape.context));
  const training::Dataset& data = all.validation.examples.empty() ? all.train : all.validation;
  for (const std::string& warning : data.summary.warnings())
    if (callbacks.warning) callbacks.warning(warning);
  TrainingEngine engine(std::move(runtime), file, shape, layout_of_adapter(read, adapter ? adapter->scale : 1),
                        options_for(data, settings, shape));
  engine.load(file);
  for (std::size_t i = 0; i < read.matrices.size(); ++i) write_matrix(engine, base, engine.layout().adapters[i], read.matrices[i]);
  const DataLoss found = data_loss(engine, data, settings.micro_batch_size, callbacks.progress);
  JsonWriter json;
  json.begin_object();
  json.member("loss", found.loss);
  json.member("perplexity", std::exp(found.loss));
  json.member("base", base_path);
  json.member("device", engine.device_label());
  write_precision_members(json, engine);
  json.member("seconds", found.seconds);
  json.key("data");
  json.begin_object();
  write_data_members(json, data);
  json.end_object();
  json.end_object();
  return json.take();
}

}  // namespace quern::runtime
