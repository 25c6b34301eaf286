// One step of a model: rows of several sequences in, logits and drawn tokens out.
//
// Owns the program of the step, the KV cache, and what each sequence holds. Knows nothing of text, prompts or requests.
#pragma once

#include "adapters.hpp"
#include "kv_pages.hpp"
#include "program.hpp"

#include "quern/models/architecture.hpp"

#include <array>
#include <span>
#include <vector>

namespace quern::runtime {

class Model;

/// One token to read. Rows of a sequence stand in order and follow what it holds.
struct Row {
  std::uint32_t slot;
  std::int32_t token;
  bool wants_output;
  bool again = false;  // it is the last token that the sequence holds, read once more; then the only row of the sequence
};

/// What the sampler needs for one output, in the order of the ops: penalties, bias, top-k, top-p, min-p, temperature.
struct SamplerInput {
  std::array<float, 8> params{};  // temperature, top_k, top_p, min_p, repeat, presence, frequency, window
  std::array<std::uint32_t, 2> seed{};
  std::int32_t step = 0;
  std::span<const std::int32_t> bias_tokens;
  std::span<const float> bias_values;
};

class Engine {
 public:
  Engine(std::shared_ptr<const Model> model, std::uint32_t sequences, std::uint32_t context);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::uint32_t sequences() const noexcept { return sequences_; }
  std::uint32_t context() const noexcept { return context_; }
  std::uint32_t max_rows() const noexcept { return max_rows_; }
  std::uint32_t max_outputs() const noexcept { return max_outputs_; }

  std::span<const std::int32_t> tokens(std::uint32_t slot) const { return tokens_.at(slot); }
  void truncate(std::uint32_t slot, std::uint32_t length);
  /// The adapter of a slot (null: none), at `scale` times its own scale. What the slot holds is forgotten where that changes it. Throws
  /// Error(QUERN_INVALID_ARGUMENT) for an adapter of another model, and where the model was loaded for fewer at a time.
  void use_adapter(std::uint32_t slot, std::shared_ptr<const LoadedAdapter> adapter, double scale);
  const AdapterPool& adapters() const noexcept { return adapters_; }
  /// Both share all pages; the first of them that goes on takes a copy of the last one, where that is not full.
  void copy(std::uint32_t from, std::uint32_t to);

  /// Reads the rows (at most max_rows, outputs at most max_outputs). `samplers`: one for each output, in order.
  /// Throws Error(QUERN_CANCELLED) after cancel(), and what a device or a lack of pages throws; the sequences then hold what they held before.
  /// `followers`, at most followers(): steps of a row each that the devices go on with behind this one, which then has one row and one output.
  /// Each reads what the one before drew, by the same sampler without penalties. follow() goes from one to the next.
  void step(std::span<const Row> rows, std::span<const SamplerInput> samplers, std::uint32_t followers = 0);
  /// How many steps may follow one. Fewer do where pages for them are not free.
  std::uint32_t followers() const noexcept { return program_->followers(); }
  /// Makes the next follower the last step, as if its row had been given to step(), by `sampler`. False: there is none. `followers`: how many
  /// may follow it; where the device takes work before it is done with what it has, others go behind those in flight. Throws as step() does.
  bool follow(const SamplerInput& sampler, std::uint32_t followers);
  /// Forgets the followers that are left, and does not wait for them: the next step does, as clear_cancel() and the destructor do.
  void drop_followers() noexcept;
  /// Of the last step, by output.
  std::int32_t sampled(std::uint32_t output) const { return sampled_.at(output); }
  float logprob(std::uint32_t output) const { return logprob_.at(output); }
  /// Copies logits of one output of the last step: [vocabulary], before penalties.
  void logits(std::uint32_t output, std::span<float> out) const;

  /// Copies what the head read for one output of the last step: [hidden], after the final norm. Only where the model keeps it.
  void hidden(std::uint32_t output, std::span<float> out) const;

  /// Copies one of the model's operand sums over the rows of the last step: as many as it has columns.
  void operand_sums(const models::StepGraph::OperandSum& which, std::span<float> out) const;

  /// From any thread, and from a signal handler.
  void cancel() noexcept;
  bool cancel_requested() const noexcept { return cancel_requested_; }
  void clear_cancel() noexcept;

  /// Keys or values of one layer's cache, page by page; for save and restore.
  std::uint64_t page_bytes(bool keys) const;
  void read_page(std::uint32_t layer, bool keys, std::int32_t page, std::span<std::byte> out) const;
  void write_page(std::uint32_t layer, bool keys, std::int32_t page, std::span<const std::byte> from);
  const KvPages& pages() const noexcept { return pages_; }
  /// Replaces what a slot holds; its pages are reserved and their bytes are the caller's to write.
  void adopt(std::uint32_t slot, std::span<const std::int32_t> tokens);

  /// Records every step from here on, and forgets what was recorded before.
  void start_trace();
  /// Ends the recording; null where none was begun.
  std::unique_ptr<Trace> take_trace() noexcept;

  const Program& program() const noexcept { return *program_; }
  const Model& model() const noexcept { return *model_; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t bytes_in() const noexcept { return bytes_in_; }
  std::uint64_t bytes_out() const noexcept { return bytes_out_; }
  std::uint64_t kv_bytes() const noexcept { return kv_bytes_; }

 private:
  class StepTrace;
  std::vector<std::byte> make_rope_table() const;
  void copy_page(std::int32_t from, std::int32_t to);
  std::uint32_t make_room(std::span<const Row> rows, std::uint32_t followers);
  void run_step(std::span<const Row> rows, std::span<const SamplerInput> samplers, std::uint32_t followers);
  void write_rows(std::span<const Row> rows);
  void write_block_table();
  void write_samplers(std::span<const Row> rows, std::span<const SamplerInput> samplers);
  void write_follower(std::uint32_t follower, std::int32_t position, std::int32_t step);
  void write_round(std::uint32_t next, std::int32_t position, std::int32_t step);
  void start_followers(const SamplerInput& sampler, std::uint32_t count);
  template <typename T>
  void put(graph::ValueId value, std::span<const T> data, std::uint64_t first = 0);

  std::shared_ptr<const Model> model_;
  std::uint32_t sequences_, context_, max_rows_, max_outputs_;
  models::StepGraph step_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Trace> trace_;
  KvPages pages_;
  AdapterPool adapters_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::int32_t> sampled_;
  std::vector<float> logprob_;
  struct Follower {
    std::int32_t sampled = 0;
    float logprob = 0;
  };
  std::vector<Follower> followers_;        // of the program, used in turn
  std::uint32_t first_follower_ = 0;       // the next to follow
  std::uint32_t followers_in_flight_ = 0;  // or done and not followed yet
  std::uint32_t followers_written_ = 0;    // starts whose values were written ahead
  std::uint32_t followed_slot_ = 0;
  Program::Results results_;                        // of a step
  std::vector<Program::Results> follower_results_;  // of each follower
  // reused by every step
  std::vector<std::int32_t> row_token_, row_position_, row_slot_, row_adapter_, output_row_, output_slot_, output_adapter_;
  std::vector<std::uint32_t> lengths_, written_from_;  // of each sequence after the step; its first position that the step writes
  std::vector<std::int32_t> no_biases_;                // -1 for each entry
  std::vector<std::uint64_t> bias_counts_;             // entries that an output's row may hold now
  std::vector<RunBound> bounds_;
  std::atomic<bool> cancel_requested_{false};
  std::uint64_t steps_ = 0, bytes_in_ = 0, bytes_out_ = 0, kv_bytes_ = 0;
};

}  // namespace quern::runtime
