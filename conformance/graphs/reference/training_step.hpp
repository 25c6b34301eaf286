// One LoRA training step of a small decoder in f64, written by hand: forward, backward, clipping, AdamW.
//
// How far a device may be from it is found by rounding on purpose: every intermediate of the step is moved by a random part of the error
// that f32 may make in it (its E_acc and E_out), in `samples` runs of their own; the deviation of an output is what those runs spread.
// The graph has dozens of products behind one another; their Jacobians by hand would be a second training step to get wrong.
#pragma once

#include "data/counter_random.hpp"

#include <cstdint>
#include <vector>

namespace quern::conformance {

/// A dense matrix, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> at;
  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), at(static_cast<std::size_t>(r * c)) {}
  double& operator()(std::int64_t r, std::int64_t c) { return at[static_cast<std::size_t>(r * columns + c)]; }
  double operator()(std::int64_t r, std::int64_t c) const { return at[static_cast<std::size_t>(r * columns + c)]; }
};

struct TrainingShape {
  std::int64_t tokens = 12, hidden = 64, heads = 2, kv_heads = 1, head = 32, ffn = 96, vocab = 48, rank = 4;
  static constexpr int layers = 2;
  double epsilon = 0x1p-16, lora_scale = 2, beta1 = 0.875, beta2 = 0.9375, adam_epsilon = 0x1p-20, weight_decay = 0.125, lr = 0x1p-7,
         max_norm = 0.25;
};

/// An adapter's place in the pool: A [rank, k] at `a`, B [n, rank] at `b`.
struct AdapterPlace {
  std::int64_t k, n, a, b;
};
/// Of each layer: q, v and down, in this order; and how many elements the pool has.
std::vector<AdapterPlace> adapter_places(const TrainingShape& shape, std::int64_t& pool_size);

struct TrainingLayer {
  std::vector<double> attn_norm, ffn_norm;
  Matrix query, key, value, output, gate, up, down;  // [n, k]
};
/// What a step reads and never writes.
struct TrainingModel {
  TrainingShape shape;
  TrainingLayer layers[TrainingShape::layers];
  std::vector<double> final_norm;
  Matrix head, x;              // [vocab, hidden]; the rows of the embedding, [tokens, hidden]
  std::vector<double> angles;  // [tokens, head / 2, 2]
  std::vector<int> label;      // -100: ignored
};
/// What it reads and writes.
struct TrainingState {
  std::vector<double> pool, m, v;
};
struct TrainingOutputs {
  std::vector<double> logits, loss, mean, dx, gradient, norm, scale;
  TrainingState state;
};

/// The noise of one run; null: none.
class RoundingNoise {
 public:
  explicit RoundingNoise(CounterRandom random) : random_(random) {}
  /// y += a part in [-1, 1) of error.
  void move(double& y, double error) { y += error * (2.0 * random_.uniform(next_++) - 1.0); }

 private:
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

/// One step: `step` counts from 1.
TrainingOutputs train(const TrainingModel& model, const TrainingState& before, int step, RoundingNoise* noise);

}  // namespace quern::conformance
