// Tiny models for the tests of architectures, and step graphs run through the reference interpreter.
#pragma once

#include "runtime/graph/reference_interpreter.hpp"
#include "support/gguf_writer.hpp"

#include "quern/models/architecture.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::test {

/// A llama of 2 layers: hidden 8, ffn 12, 4 heads of 2 over 2 kv heads, 10 tokens, context 64, separate head, f32.
GgufWriter tiny_llama();
/// The same as qwen3: heads of a stated size and norms on q and k.
GgufWriter tiny_qwen3();

/// A model in memory.
struct Model {
  explicit Model(GgufWriter::Bytes b, std::string name = "tiny.gguf");
  GgufWriter::Bytes bytes;
  gguf::File file;
  models::Hyperparameters shape;
};

/// The elements of an f32 or f16 tensor.
std::vector<float> elements(const gguf::File& file, const std::string& tensor);

/// One row of a step.
struct Row {
  std::int32_t token;
  std::int32_t position;
  std::int32_t slot;
};

/// A model in f64: its step graph, weights and cache, whose pages lie in no order.
class ReferenceModel {
 public:
  ReferenceModel(const models::Hyperparameters& shape, const gguf::File& file, models::StepOptions options);

  /// Runs the rows and returns the logits of those named, one vector each.
  std::vector<std::vector<double>> step(const std::vector<Row>& rows, const std::vector<std::int32_t>& wanted);
  const models::StepGraph& graph() const { return step_; }
  ReferenceInterpreter& interpreter() { return run_; }

 private:
  models::StepOptions options_;
  models::StepGraph step_;
  ReferenceInterpreter run_;
};

/// Options that fit tests: pages of 4 positions, f32 cache, no sampler.
models::StepOptions test_options(std::uint32_t sequences, std::uint32_t positions);

}  // namespace quern::test
