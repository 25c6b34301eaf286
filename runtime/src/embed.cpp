// See embed.hpp.
#include "embed.hpp"

#include "evaluate.hpp"
#include "model.hpp"

#include <algorithm>
#include <cmath>

namespace quern::runtime {
namespace {

/// Reads the ids in steps, and calls take(vector) for each token whose hidden state is wanted.
template <typename Take>
void read_ids(Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, bool every, const Take& take) {
  const std::vector<SamplerInput> greedy(engine.max_outputs());
  std::vector<float> hidden(engine.model().shape().hidden);
  std::vector<Row> rows;
  const std::size_t most = every ? engine.max_outputs() : engine.max_rows();
  for (std::size_t at = 0; at < ids.size();) {
    if (engine.cancel_requested()) throw Error(QUERN_CANCELLED, "the embedding was cancelled");
    const std::size_t count = std::min(most, ids.size() - at);
    rows.clear();
    std::size_t outputs = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool wanted = every || at + i + 1 == ids.size();
      rows.push_back({sequence, ids[at + i], wanted});
      outputs += wanted ? 1 : 0;
    }
    engine.step(rows, std::span(greedy).first(outputs));
    for (std::size_t i = 0; i < outputs; ++i) {
      engine.hidden(static_cast<std::uint32_t>(i), hidden);
      take(std::span<const float>(hidden));
    }
    at += count;
  }
}

void scale_to_length_one(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * x;
  const double length = std::sqrt(squares);
  if (!(length > 0)) return;
  for (float& x : vector) x = static_cast<float>(x / length);
}

}  // namespace

std::vector<float> embed(Engine& engine, std::uint32_t sequence, std::span<const std::int32_t> ids, Pooling pooling, bool normalise) {
  if (engine.model().step().hidden == graph::no_value) {
    throw Error(QUERN_INVALID_ARGUMENT, "the model was loaded without embeddings; load it with embeddings = 1");
  }
  check_ids(engine, sequence, ids, "embed");
  engine.clear_cancel();
  engine.truncate(sequence, 0);
  const std::size_t size = engine.model().shape().hidden;
  std::vector<float> result;
  if (pooling == Pooling::mean) {
    std::vector<double> sums(size);
    read_ids(engine, sequence, ids, true, [&](std::span<const float> hidden) {
      for (std::size_t i = 0; i < size; ++i) sums[i] += hidden[i];
    });
    for (const double sum : sums) result.push_back(static_cast<float>(sum / static_cast<double>(ids.size())));
  } else {
    result.reserve(pooling == Pooling::none ? size * ids.size() : size);
    read_ids(engine, sequence, ids, pooling == Pooling::none,
             [&](std::span<const float> hidden) { result.insert(result.end(), hidden.begin(), hidden.end()); });
  }
  for (std::size_t at = 0; normalise && at < result.size(); at += size) scale_to_length_one(std::span(result).subspan(at, size));
  return result;
}

}  // namespace quern::runtime
