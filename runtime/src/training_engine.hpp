// The devices' side of fine-tuning: programs of the step, of the update and of the evaluation, over one state.
//
// Knows rows, labels and rates; nothing of files, text, schedules or settings.
#pragma once

#include "model_weights.hpp"
#include "program.hpp"
#include "runtime.hpp"

#include "quern/models/training_graph.hpp"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace quern::runtime {

/// Rows of whole examples, one behind the other; an example sees itself alone.
struct MicroBatch {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> starts;     // first row of each example
  std::vector<std::int32_t> label_rows;  // rows whose next token counts, ascending
  std::vector<std::int32_t> labels;      // that next token
  std::vector<float> label_weights;      // what its loss is multiplied by
};

struct TrainingEngineOptions {
  models::TrainingOptions graph;  // its sizes are the largest micro-batch; the engine sets rope_positions, ragged and backward_may_use
  bool rows_by_device = false;    // graph.activations is the engine's to choose: bf16 where the device has units for it, else f32
  models::UpdateOptions update;
  std::array<std::uint32_t, 2> seed{};  // of dropout
  std::uint32_t evaluation_tokens = 0;  // rows of the largest evaluated micro-batch; 0: as graph.max_tokens
  bool trains = true;                   // false: evaluate() alone, without gradients, moments and what needs them
};

/// What a batch gave: the sum of weighted losses, the norm of its gradients before clipping, and whether they were finite.
struct BatchNumbers {
  float loss = 0, norm = 0;
  bool finite = true;
};

/// What an engine takes, in bytes, as its compiled plans have it.
struct TrainingMemory {
  std::uint64_t weights = 0;      // frozen, as they lie on the devices
  std::uint64_t trained = 0;      // the flat state, its gradients and the moments
  std::uint64_t activations = 0;  // kept values, scratch and inputs of a step and of its update
  std::uint64_t head = 0;         // of the activations: the logits of a chunk and their gradient, at most
  std::uint64_t evaluation = 0;   // the same of an evaluation, beside what it shares with the step
  std::uint64_t host = 0;         // in the process, beside the devices

  std::uint64_t devices() const noexcept { return weights + trained + activations + evaluation; }
};

class TrainingEngine {
 public:
  /// Places and compiles; allocates nothing large. What a device lacks of op set 2 is composed of older ops. Without attention_ragged attention takes
  /// a mask of all pairs of rows, and more than 8,192 rows are refused. Throws Error; QUERN_UNSUPPORTED where no single device computes what touches the state that is
  /// trained.
  TrainingEngine(std::shared_ptr<Runtime> runtime, const gguf::File& file, models::Hyperparameters shape, models::TrainedLayout layout,
                 const TrainingEngineOptions& options);

  /// From the plans alone, before load() as after it.
  TrainingMemory memory() const;
  /// What is missing on the first device that has too little room for all of it; empty: it fits. Before load().
  std::string lack() const;
  /// Loads the weights and allocates. Trained adapters are 0 until write_trained(); trained tensors are the file's, decoded. Once, before all
  /// that follows. Throws Error; QUERN_DOES_NOT_FIT, with lack(), before anything large is allocated.
  void load(const gguf::File& file);

  const models::Hyperparameters& shape() const noexcept { return shape_; }
  const models::TrainedLayout& layout() const noexcept { return layout_; }

  /// Adds the gradients and the losses of a micro-batch. `number` counts micro-batches from 0: its dropout masks depend on it.
  /// With f16 gradients are computed times `loss_scale`, a power of two, so that small ones are no zeros; the same for all of a batch.
  void accumulate(const MicroBatch& batch, std::int32_t number, float loss_scale = 1);
  /// Ends a batch: one step of the optimiser, from 1, at this rate. Weights and moments keep their bits where a gradient is not finite.
  BatchNumbers update(std::int32_t step, float rate, float loss_scale = 1);
  /// The losses that were added since the last update() or clear().
  double loss() const;
  /// Forgets gradients and losses.
  void clear();
  /// The sum of weighted losses, with what is trained as it is now.
  double evaluate(const MicroBatch& batch);

  /// Of the flat state: [first, first + numbers.size()).
  void read_trained(std::uint64_t first, std::span<float> numbers) const;
  void write_trained(std::uint64_t first, std::span<const float> numbers);
  void read_gradient(std::uint64_t first, std::span<float> numbers) const;
  /// How many moments the optimiser has. Number 0 is the first one or the momentum, 1 the second.
  int moments() const noexcept;
  void read_moment(int which, std::uint64_t first, std::span<float> numbers) const;
  void write_moment(int which, std::uint64_t first, std::span<const float> numbers);

  /// SHA-256 of the frozen weights as the devices hold them.
  std::string weights_sum() const;

  /// Records each run from here on, and forgets what was recorded before. Of the host: a span for each micro-batch, update and evaluation, with
  /// the bytes that went to the devices, came from them and crossed between them.
  void start_trace();
  /// Ends the recording; null if none was begun.
  std::unique_ptr<Trace> take_trace() noexcept;
  std::span<const Program* const> traced_programs() const noexcept { return programs(); }

  /// From any thread, and from a signal handler: the run in flight ends with Error(QUERN_CANCELLED).
  void cancel() noexcept;
  void clear_cancel() noexcept;

  /// Of rows and products: f32, bf16 or f16.
  quern_dtype rows() const noexcept { return options_.graph.activations; }
  /// Why they are of that type, as "cpu:0 is a processor, ..."; empty where the options gave it.
  const std::string& reason_of_rows() const noexcept { return reason_of_rows_; }

  const Program& step_program() const noexcept { return step_ ? *step_ : *evaluation_; }
  /// "cpu:0": where most of a step runs.
  std::string device_label() const;
  /// What the devices of the runtime hold now, and what they held at most.
  MemoryStatistics statistics() const;

 private:
  /// Decides how attention is computed, in the evaluation too. Nothing where nothing is trained.
  std::optional<models::TrainingGraph> build_step(const gguf::File& file);
  /// Whether bf16 is to be tried on the first device; tells why where not.
  bool tries_bf16();
  std::span<Program* const> programs() const noexcept;
  /// Throws Error(QUERN_UNSUPPORTED) where devices share what an update writes.
  void require_one_place() const;
  std::uint64_t weights_bytes(std::uint32_t device) const;
  void load_weights(const gguf::File& file);
  void load_trained(const gguf::File& file, const models::TrainedTensor& tensor);
  void bind(Program& program, const std::vector<models::StepGraph::Weight>& weights, const gguf::File& file);
  void write_rope_table(const gguf::File& file);
  graph::ValueId moment(int which) const;
  void forget_loss();
  template <typename Numbers>
  void put(Program& program, graph::ValueId value, const Numbers& numbers);
  template <typename T>
  void take(const Program& program, graph::ValueId value, T& number) const;
  struct Traffic {
    std::uint64_t to_devices = 0, from_devices = 0, between_devices = 0;
  };
  Traffic traffic() const noexcept;
  template <typename Work>
  void traced(const char* name, const MicroBatch* batch, const Work& work);
  void run(Program& program, const models::TrainingGraph& graph, const MicroBatch& batch, std::int32_t number);

  std::shared_ptr<Runtime> runtime_;
  models::Hyperparameters shape_;
  models::TrainedLayout layout_;
  TrainingEngineOptions options_;
  std::vector<std::shared_ptr<MemoryBudget>> devices_;
  std::string reason_of_rows_;
  std::optional<models::TrainingGraph> step_graph_;
  models::TrainingGraph evaluation_graph_;
  std::optional<models::UpdateGraph> update_graph_;
  std::unique_ptr<Program> step_, update_, evaluation_;    // the first two are null where nothing is trained
  std::array<Program*, 3> programs_{};                     // those that are there, the evaluation first
  std::vector<std::pair<Program*, WantedWeight>> wanted_;  // what several programs read the same way is there once
  std::vector<Memory> weights_;
  std::map<WeightPlace, quern_span> places_;
  std::vector<RunBound> bounds_;
  std::vector<float> mask_;
  std::vector<std::int32_t> positions_, starts_;
  std::unique_ptr<Trace> trace_;
  std::uint64_t bytes_in_ = 0;
  mutable std::uint64_t bytes_out_ = 0;
};

}  // namespace quern::runtime
