// A loaded model: what its file says, where it was placed, and its weights on the devices.
#pragma once

#include "device_choice.hpp"
#include "model_split.hpp"
#include "program.hpp"
#include "runtime.hpp"
#include "vocabulary.hpp"
#include "weights_cache.hpp"

#include "quern/models/architecture.hpp"
#include "quern/sdk/thread.hpp"

#include <functional>

namespace quern::runtime {

struct ModelOptions {
  std::uint64_t context = 0;  // 0: the smaller of the model's and 4,096
  std::uint32_t sequences = 1;
  bool exact = false;  // f32 activations
  quern_dtype kv_dtype = QUERN_F16;
  bool embeddings = false;                                                // steps keep the hidden states of their outputs
  bool operand_sums = false;                                              // steps sum the squares of what each product reads
  std::vector<std::string> adapters;                                      // files of those that sessions may use at a time
  std::string tokenizer_pre;                                              // as tokenizer_from_gguf() takes it
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // false cancels
};

/// Rows of a step at least, and on a discrete GPU at most; positions of a page.
inline constexpr std::uint32_t step_rows = 512, most_step_rows = 2048;
inline constexpr std::uint32_t kv_page_size = 64;
inline constexpr std::uint32_t default_context = 4096;

/// A tensor of the type that holds most elements; null in a file without tensors. It lives as long as the file.
const gguf::TensorInfo* of_most_used_format(const gguf::File& file);

/// Changes with the file's shape, formats and content, of which it reads the ends of each tensor.
std::uint64_t fingerprint_of(const gguf::File& file, const models::Hyperparameters& shape);

/// QUERN_CONVERT_... that the products of a step allow: none where activations stay f32.
std::uint32_t allowed_conversions(bool exact) noexcept;

/// How many rows a step takes: a GPU multiplies many at a time faster, where there is memory for what lies between its products beside
/// weights and cache.
std::uint32_t rows_of_step(const models::Hyperparameters& model, const gguf::File& file,
                           const std::vector<std::shared_ptr<MemoryBudget>>& devices, std::uint32_t sequences, std::uint32_t context,
                           quern_dtype kv_dtype);

/// What the nodes of a step ask for: results that do not depend on the batch on a CPU, where they cost nothing, and where the user
/// wants them (deterministic); else repeatable ones, since a GPU has other kernels for many rows than for few.
std::uint32_t step_determinism(const Runtime& runtime, const std::vector<std::shared_ptr<MemoryBudget>>& devices);

/// The step of a model for these many rows, sequences and positions. Where only CPUs compute, rows without an output leave the last layer early:
/// their time is that of the rows, while a GPU's fused layers want all layers alike.
models::StepOptions step_options(std::uint32_t rows, std::uint32_t sequences, std::uint32_t context, quern_dtype kv_dtype, bool exact,
                                 const Runtime& runtime, const std::vector<std::shared_ptr<MemoryBudget>>& devices,
                                 bool hidden_output = false);

/// The step of a file, and the devices that it was made for.
struct PlacedStep {
  DeviceChoice choice;
  std::uint32_t rows = 0;
  models::StepOptions options;
  std::unique_ptr<models::StepGraph> graph;
};
/// For the devices that compute it best: they are known once there is a graph to ask them about.
PlacedStep place_best(Runtime& runtime, const gguf::File& file, const models::Hyperparameters& shape, std::uint32_t context,
                      const ModelOptions& options);

/// Bytes of one tensor set on one device.
struct WeightShare {
  std::uint32_t device;
  std::uint64_t bytes;
  WeightsOrigin origin;
};

class Model {
 public:
  /// Reads, places, copies the weights to their devices. Afterwards the file is closed.
  static std::shared_ptr<const Model> load(std::shared_ptr<Runtime> runtime, const std::string& path, const ModelOptions& options);

  const std::string& path() const noexcept { return path_; }
  const std::string& name() const noexcept { return name_; }
  const Vocabulary& vocabulary() const noexcept { return *vocabulary_; }
  const models::Hyperparameters& shape() const noexcept { return shape_; }
  std::uint64_t parameters() const noexcept { return parameters_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// The format that holds most elements: as files spell it ("Q4_K"; "" in a file without tensors), and as a dtype.
  const std::string& main_format() const noexcept { return main_format_; }
  quern_dtype main_dtype() const noexcept { return main_dtype_; }
  std::uint32_t context() const noexcept { return context_; }
  std::uint32_t sequences() const noexcept { return sequences_; }
  std::uint32_t step_rows() const noexcept { return step_rows_; }
  /// How many adapters a session may use at a time.
  std::uint32_t adapters() const noexcept { return adapters_; }
  bool exact() const noexcept { return exact_; }
  /// QUERN_CONVERT_... that its products allow.
  std::uint32_t conversions() const noexcept { return allowed_conversions(exact_); }
  quern_dtype kv_dtype() const noexcept { return kv_dtype_; }
  /// Changes with the file's shape, formats and content: saved states carry it.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  const std::shared_ptr<Runtime>& runtime() const noexcept { return runtime_; }
  const std::vector<std::shared_ptr<MemoryBudget>>& devices() const noexcept { return devices_; }
  /// Why it is there, where the first device in rank does not have all of it, and what then crosses between devices; else empty.
  std::string choice() const;
  const std::vector<WeightShare>& weight_shares() const noexcept { return weight_shares_; }
  std::uint64_t weight_bytes() const noexcept;
  /// Bytes of weights that a decode step reads: all but the rows of a table that is only gathered from.
  std::uint64_t step_weight_bytes() const noexcept { return step_weight_bytes_; }
  /// True if some plugin packed quantised weights: it may then round activations and multiply integers.
  bool integer_products() const noexcept { return integer_products_; }
  const std::vector<Cut>& cuts() const noexcept { return cuts_; }
  const std::vector<DeviceShare>& shares() const noexcept { return shares_; }

  /// The step graph; a session compiles its own program of it.
  const models::StepGraph& step() const noexcept { return *step_; }
  const models::RopeGraph& rope() const noexcept { return *rope_; }
  /// A program of the step with its constants bound.
  std::unique_ptr<Program> make_step_program() const;
  std::unique_ptr<Program> make_rope_program() const;

 private:
  Model() = default;
  std::unique_ptr<Program> place_step(const gguf::File& file, std::vector<WantedWeight>& wanted);
  [[noreturn]] void refuse(const Program& program, const std::vector<WantedWeight>& wanted, const Lack& lack) const;
  void load_weights(const gguf::File& file, const ModelOptions& options);
  void find_arenas(WeightsCache& cache, const std::vector<WantedWeight>& wanted);
  void fill_arenas(const Program& program, const gguf::File& file, const std::vector<WantedWeight>& wanted, const ModelOptions& options);
  void bind_weights(Program& program, const std::vector<models::StepGraph::Weight>& weights) const;

  std::shared_ptr<Runtime> runtime_;
  std::string path_, name_, main_format_, passed_over_;
  quern_dtype main_dtype_ = QUERN_DTYPE_NONE;
  std::unique_ptr<Vocabulary> vocabulary_;
  models::Hyperparameters shape_;
  std::uint64_t parameters_ = 0, file_bytes_ = 0, fingerprint_ = 0, step_weight_bytes_ = 0;
  std::uint32_t context_ = 0, sequences_ = 1, step_rows_ = 0, adapters_ = 0;
  bool exact_ = false, integer_products_ = false;
  quern_dtype kv_dtype_ = QUERN_F16;
  std::vector<std::shared_ptr<MemoryBudget>> devices_;
  std::unique_ptr<models::StepGraph> step_;
  std::unique_ptr<models::RopeGraph> rope_;
  Assignment assignment_;  // empty: the model was not split
  std::vector<WeightShare> weight_shares_;
  std::vector<Cut> cuts_;
  std::vector<DeviceShare> shares_;
  std::map<std::uint32_t, std::vector<Memory>> arenas_;  // of weights, by device: more than one where it allocates no more at once
  std::map<WeightPlace, quern_span> tensors_;
  std::vector<sdk::Thread> writers_;  // of arenas into files; they end before the arenas do
};

}  // namespace quern::runtime
