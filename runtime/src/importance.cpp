// See importance.hpp.
#include "importance.hpp"

#include "engine.hpp"
#include "model.hpp"

#include "quern/graph/json_writer.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/importance.hpp"

#include <algorithm>
#include <cmath>

namespace quern::runtime {
namespace {

constexpr std::size_t chunk_tokens = 512;

/// The text's tokens in chunks that each begin with the first token that the model wants.
std::vector<std::vector<std::int32_t>> chunks_of(const Model& model, std::string_view text, std::uint64_t most) {
  const Tokenizer& tokenizer = model.vocabulary().tokenizer();
  EncodeOptions how;
  how.add_eos = false;
  how.parse_special = false;
  const std::vector<std::int32_t> ids = tokenizer.encode(text, how);
  if (ids.empty()) throw Error(QUERN_INVALID_ARGUMENT, "the text is empty; there is nothing to measure");
  const std::size_t length = std::min<std::size_t>({chunk_tokens, ids.size(), model.context()});
  const bool begins = tokenizer.adds_bos() && tokenizer.bos();
  std::vector<std::vector<std::int32_t>> chunks;
  for (std::size_t at = 0; at + length <= ids.size() && (most == 0 || chunks.size() < most); at += length) {
    std::vector<std::int32_t>& chunk =
        chunks.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(at), ids.begin() + static_cast<std::ptrdiff_t>(at + length));
    if (begins) chunk.front() = *tokenizer.bos();
  }
  return chunks;
}

/// Adds the sums of the engine's last step, of `tokens` rows.
void add_sums(const Engine& engine, std::uint64_t tokens, quantize::Importance& to) {
  std::vector<float> sums;
  graph::ValueId read = graph::no_value;
  for (const models::StepGraph::OperandSum& one : engine.model().step().operand_sums) {
    if (one.value != read) {  // products of one operand stand side by side
      sums.resize(one.columns);
      engine.operand_sums(one, sums);
      read = one.value;
    }
    quantize::ImportanceEntry& entry = to.entries[one.weight];
    entry.sums.resize(sums.size());
    entry.counts.resize(1);
    std::ranges::transform(entry.sums, sums, entry.sums.begin(), std::plus<>());
    entry.counts[0] += static_cast<double>(tokens);
  }
}

void measure(const std::shared_ptr<Runtime>& runtime, const std::string& path, std::string_view text, const ImportanceOptions& options,
             quantize::Importance& to, std::uint64_t& tokens) {
  ModelOptions how;
  how.context = std::min<std::uint64_t>(chunk_tokens, models::read_hyperparameters(models::open_model(path)).context);
  how.operand_sums = true;
  const std::shared_ptr<const Model> model = Model::load(runtime, path, how);
  const std::vector<std::vector<std::int32_t>> chunks = chunks_of(*model, text, options.most_chunks);
  Engine engine(model, 1, model->context());
  std::vector<Row> rows;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    engine.truncate(0, 0);
    for (std::size_t at = 0; at < chunks[c].size(); at += rows.size()) {
      rows.clear();
      for (std::size_t i = at; i < chunks[c].size() && rows.size() < engine.max_rows(); ++i) rows.push_back({0, chunks[c][i], false});
      engine.step(rows, {});
      add_sums(engine, rows.size(), to);
    }
    tokens += chunks[c].size();
    if (options.progress && !options.progress((c + 1) * chunks[c].size(), chunks.size() * chunks[c].size()))
      throw Error(QUERN_CANCELLED, concat(path, ": measuring was cancelled"));
  }
  if (!options.dataset.empty()) to.datasets = {options.dataset};
  to.chunks = static_cast<std::uint32_t>(chunks.size());
  to.chunk_tokens = static_cast<std::uint32_t>(chunks.front().size());
}

}  // namespace

std::string measure_importance(const std::shared_ptr<Runtime>& runtime, const std::string& model, std::string_view text,
                               const ImportanceOptions& options, const std::string& out) {
  std::vector<quantize::Importance> inputs;  // first, so that a wrong one costs nothing
  for (const std::string& path : options.inputs) inputs.push_back(quantize::Importance::read(path));
  quantize::Importance made;
  std::uint64_t tokens = 0;
  measure(runtime, model, text, options, made, tokens);
  for (const quantize::Importance& input : inputs) made.add(input);
  for (const auto& [name, entry] : made.entries)
    for (const double sum : entry.sums)
      if (!std::isfinite(sum)) throw Error(QUERN_UNSUPPORTED, concat(model, ": inputs of '", name, "' are not finite over this text"));
  made.write(out);
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.member("output", out);
  json.member("entries", made.entries.size());
  json.member("tokens", tokens);
  json.member("chunks", made.chunks);
  json.member("chunk_tokens", made.chunk_tokens);
  json.member("datasets", made.datasets);
  json.end_object();
  return json.take();
}

}  // namespace quern::runtime
