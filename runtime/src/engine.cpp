// See engine.hpp.
#include "engine.hpp"

#include "model.hpp"

#include "quern/base/byte_sizes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::runtime {

Engine::Engine(std::shared_ptr<const Model> model, std::uint32_t sequences, std::uint32_t context)
    : model_(std::move(model)),
      sequences_(sequences),
      context_(context),
      max_rows_(model_->step_rows()),
      max_outputs_(std::max(8u, model_->sequences())),
      step_(model_->step()),
      program_(model_->make_step_program()),
      pages_(static_cast<std::uint32_t>(step_.graph.value(step_.k_cache.at(0)).shape.at(0).size), kv_page_size, model_->sequences(),
             static_cast<std::uint32_t>(step_.graph.value(step_.block_table).shape.at(1).size),
             [this](std::int32_t from, std::int32_t to) { copy_page(from, to); }),
      adapters_(step_, model_->adapters(), sequences),
      tokens_(sequences),
      lengths_(sequences),
      written_from_(sequences) {
  const std::vector<std::byte> rope = make_rope_table();  // first, so that a device never holds two
  program_->prepare();
  program_->write(step_.rope_table, 0, rope);
  for (const auto* caches : {&step_.k_cache, &step_.v_cache}) {
    for (const graph::ValueId id : *caches) { kv_bytes_ += graph::byte_size(step_.graph.value(id).dtype, step_.graph.value(id).shape); }
  }
  for (std::vector<std::int32_t>& list : tokens_) list.reserve(context_);
  row_token_.reserve(max_rows_);
  row_position_.reserve(max_rows_);
  row_slot_.reserve(max_rows_);
  row_adapter_.reserve(max_rows_);
  output_row_.reserve(max_outputs_);
  output_slot_.reserve(max_outputs_);
  output_adapter_.reserve(max_outputs_);
  sampled_.resize(max_outputs_);
  logprob_.resize(max_outputs_);
  bounds_.reserve(2);
  results_.reserve(2);
  followers_.resize(program_->followers());
  for (Follower& f : followers_)
    follower_results_.push_back({{step_.sampled, std::as_writable_bytes(std::span(&f.sampled, 1))},
                                 {step_.logprob, std::as_writable_bytes(std::span(&f.logprob, 1))}});
  const auto bias_size = static_cast<std::uint64_t>(step_.graph.value(step_.bias_token).shape.at(1).size);
  no_biases_.assign(bias_size, -1);
  bias_counts_.assign(max_outputs_, bias_size);
}

Engine::~Engine() { drop_followers(); }

std::vector<std::byte> Engine::make_rope_table() const {
  const std::unique_ptr<Program> rope = model_->make_rope_program();
  rope->prepare();
  rope->run({});
  const graph::Value& table = rope->graph().value(model_->rope().table);
  std::vector<std::byte> bytes(graph::byte_size(table.dtype, table.shape));
  rope->read(model_->rope().table, 0, bytes);
  return bytes;
}

void Engine::truncate(std::uint32_t slot, std::uint32_t length) {
  tokens_.at(slot).resize(length);
  pages_.truncate(slot, length);
}

void Engine::use_adapter(std::uint32_t slot, std::shared_ptr<const LoadedAdapter> adapter, double scale) {
  if (adapter != nullptr && &adapter->model() != model_.get())
    throw Error(QUERN_INVALID_ARGUMENT, concat(adapter->path(), " was loaded for another model than the session has"));
  if (adapters_.uses(slot, adapter.get(), scale)) return;
  truncate(slot, 0);
  adapters_.use(*program_, slot, std::move(adapter), scale);
}

void Engine::copy(std::uint32_t from, std::uint32_t to) {
  if (from == to) return;
  truncate(to, 0);
  adapters_.copy(*program_, from, to);
  pages_.share(from, to);
  tokens_.at(to).assign(tokens_.at(from).begin(), tokens_.at(from).end());
}

void Engine::adopt(std::uint32_t slot, std::span<const std::int32_t> tokens) {
  truncate(slot, 0);
  if (!pages_.reserve(slot, 0, static_cast<std::uint32_t>(tokens.size()))) {
    throw Error(QUERN_CONTEXT_FULL, concat("a sequence of ", counted(tokens.size(), "token"), " does not fit the cache"));
  }
  tokens_.at(slot).assign(tokens.begin(), tokens.end());
}

void Engine::copy_page(std::int32_t from, std::int32_t to) {
  const double start = trace_ == nullptr ? 0 : trace_->now();
  std::uint64_t copied = 0;
  for (const auto* caches : {&step_.k_cache, &step_.v_cache}) {
    for (const graph::ValueId cache : *caches) {
      const std::uint64_t bytes = page_bytes(caches == &step_.k_cache);
      program_->copy_within(cache, static_cast<std::uint64_t>(to) * bytes, static_cast<std::uint64_t>(from) * bytes, bytes);
      copied += bytes;
    }
  }
  if (trace_ != nullptr) trace_->add("copy a shared page", 0, start, {{"bytes", copied}});
}

std::uint64_t Engine::page_bytes(bool keys) const {
  const graph::Value& cache = step_.graph.value(keys ? step_.k_cache.at(0) : step_.v_cache.at(0));
  return graph::byte_size(cache.dtype, cache.shape) / static_cast<std::uint64_t>(cache.shape.at(0).size);
}

void Engine::read_page(std::uint32_t layer, bool keys, std::int32_t page, std::span<std::byte> out) const {
  program_->read((keys ? step_.k_cache : step_.v_cache).at(layer), static_cast<std::uint64_t>(page) * out.size(), out);
}

void Engine::write_page(std::uint32_t layer, bool keys, std::int32_t page, std::span<const std::byte> from) {
  program_->write((keys ? step_.k_cache : step_.v_cache).at(layer), static_cast<std::uint64_t>(page) * from.size(), from);
}

template <typename T>
void Engine::put(graph::ValueId value, std::span<const T> data, std::uint64_t first) {
  const std::span<const std::byte> bytes = std::as_bytes(data);
  program_->write(value, first * sizeof(T), bytes);
  bytes_in_ += bytes.size();
}

void Engine::write_rows(std::span<const Row> rows) {
  row_token_.clear();
  row_position_.clear();
  row_slot_.clear();
  row_adapter_.clear();
  output_row_.clear();
  output_slot_.clear();
  output_adapter_.clear();
  for (std::uint32_t s = 0; s < sequences_; ++s) lengths_[s] = static_cast<std::uint32_t>(tokens_[s].size());
  for (const Row& row : rows) {
    row_token_.push_back(row.token);
    row_slot_.push_back(static_cast<std::int32_t>(row.slot));
    row_adapter_.push_back(adapters_.slot(row.slot));
    row_position_.push_back(static_cast<std::int32_t>(row.again ? lengths_.at(row.slot) - 1 : lengths_.at(row.slot)++));
    if (row.wants_output) {
      output_row_.push_back(static_cast<std::int32_t>(row_token_.size() - 1));
      output_slot_.push_back(static_cast<std::int32_t>(row.slot));
      output_adapter_.push_back(adapters_.slot(row.slot));
    }
  }
  put<std::int32_t>(step_.token, row_token_);
  put<std::int32_t>(step_.position, row_position_);
  put<std::int32_t>(step_.row_slot, row_slot_);
  put<std::int32_t>(step_.output_row, output_row_);
  put<std::int32_t>(step_.output_slot, output_slot_);
  if (step_.row_adapter != graph::no_value) put<std::int32_t>(step_.row_adapter, row_adapter_);
  if (step_.output_adapter != graph::no_value) put<std::int32_t>(step_.output_adapter, output_adapter_);
  write_block_table();
}

void Engine::write_block_table() {
  if (!pages_.changed()) return;
  put<std::int32_t>(step_.block_table, pages_.block_table());
  pages_.mark_known();
}

void Engine::write_samplers(std::span<const Row> rows, std::span<const SamplerInput> samplers) {
  const std::uint64_t history_size = static_cast<std::uint64_t>(step_.graph.value(step_.history).shape.at(1).size);
  const std::uint64_t bias_size = static_cast<std::uint64_t>(step_.graph.value(step_.bias_token).shape.at(1).size);
  std::uint64_t output = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_output) continue;
    const SamplerInput& sampler = samplers[output];
    put<float>(step_.sampler_params, sampler.params, output * sampler.params.size());
    put<std::uint32_t>(step_.sampler_seed, sampler.seed, output * 2);
    put<std::int32_t>(step_.sampler_step, std::span(&sampler.step, 1), output);

    const std::uint32_t slot = rows[r].slot;
    const bool penalised = sampler.params[7] > 0;
    std::int32_t length = 0;
    if (penalised) {
      // What the sequence holds after this row: the earlier tokens and this step's rows of the slot up to here.
      const std::span<const std::int32_t> before = tokens_.at(slot);
      put<std::int32_t>(step_.history, before, output * history_size);
      length = static_cast<std::int32_t>(before.size());
      for (std::size_t i = 0; i <= r; ++i) {
        if (rows[i].slot == slot && !rows[i].again) {
          put<std::int32_t>(step_.history, std::span(&rows[i].token, 1), output * history_size + static_cast<std::uint64_t>(length++));
        }
      }
    }
    put<std::int32_t>(step_.history_len, std::span<const std::int32_t>(&length, 1), output);

    if (sampler.bias_tokens.size() > bias_size) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(sampler.bias_tokens.size(), " logit biases; at most ", bias_size, " are possible"));
    }
    put<std::int32_t>(step_.bias_token, sampler.bias_tokens, output * bias_size);
    put<float>(step_.bias_value, sampler.bias_values, output * bias_size);
    // What an earlier step left behind; one write, since a device may be far away.
    const std::uint64_t now = sampler.bias_tokens.size(), before = std::exchange(bias_counts_.at(output), now);
    if (before > now)
      put<std::int32_t>(step_.bias_token, std::span<const std::int32_t>(no_biases_).first(before - now), output * bias_size + now);
    ++output;
  }
}

void Engine::write_follower(std::uint32_t follower, std::int32_t position, std::int32_t step) {
  program_->write_follower(follower, step_.position, std::as_bytes(std::span(&position, 1)));
  program_->write_follower(follower, step_.sampler_step, std::as_bytes(std::span(&step, 1)));
  bytes_in_ += sizeof position + sizeof step;
}

/// What a step is in a trace: from here to add(). Followers that go on are steps of their own besides.
class Engine::StepTrace {
 public:
  explicit StepTrace(const Engine& engine)
      : engine_(engine),
        start_(engine.trace_ == nullptr ? 0 : engine.trace_->now()),
        in_(engine.bytes_in_),
        out_(engine.bytes_out_),
        moved_(engine.program_->bytes_moved()) {}
  void add(std::size_t rows, std::size_t outputs, std::uint32_t followers) const {
    if (engine_.trace_ == nullptr) return;
    engine_.trace_->add(rows == 1 ? "decode step" : "step", 0, start_,
                        {{"rows", rows},
                         {"followers", followers},
                         {"outputs", outputs},
                         {"bytes_to_devices", engine_.bytes_in_ - in_},
                         {"bytes_from_devices", engine_.bytes_out_ - out_},
                         {"bytes_between_devices", engine_.program_->bytes_moved() - moved_}});
  }

 private:
  const Engine& engine_;
  const double start_;
  const std::uint64_t in_, out_, moved_;
};

bool Engine::follow(const SamplerInput& sampler, std::uint32_t followers) {
  if (followers_in_flight_ == 0) return false;
  const StepTrace traced(*this);
  std::vector<std::int32_t>& held = tokens_[followed_slot_];
  const std::size_t before = held.size();
  try {
    program_->wait_for(first_follower_);
    held.push_back(sampled_[0]);
    sampled_[0] = followers_[first_follower_].sampled;
    logprob_[0] = followers_[first_follower_].logprob;
    first_follower_ = (first_follower_ + 1) % this->followers();
    --followers_in_flight_;
    ++steps_;
    if (program_->followers_go_on()) {
      start_followers(sampler, followers);
      traced.add(1, 1, 0);
    }
  } catch (...) {
    held.resize(before);
    drop_followers();
    throw;
  }
  return true;
}

/// Until `count` are in flight, or there is no room.
void Engine::start_followers(const SamplerInput& sampler, std::uint32_t count) {
  while (followers_in_flight_ < count) {
    const std::uint32_t behind = followers_in_flight_ + 1;
    const auto held = static_cast<std::uint32_t>(tokens_[followed_slot_].size()) + behind;  // once it has run
    if (held > context_ || !pages_.reserve(followed_slot_, held - 1, held)) return;
    write_block_table();
    const std::uint32_t next = (first_follower_ + followers_in_flight_) % followers();
    if (followers_written_ == 0) write_round(next, static_cast<std::int32_t>(held - 1), sampler.step + static_cast<std::int32_t>(behind));
    --followers_written_;
    program_->start_follower(next, follower_results_[next]);
    ++followers_in_flight_;
    bytes_out_ += sizeof(Follower::sampled) + sizeof(Follower::logprob);
  }
}

/// For a start of each follower, from `next` on. Those in flight have read what they have when this is done: it is behind them on their queue. A
/// device may bring small writes to their places with the work behind them, so two of three steps come without.
void Engine::write_round(std::uint32_t next, std::int32_t position, std::int32_t step) {
  for (std::uint32_t f = 0; f < followers(); ++f) {
    const auto behind = static_cast<std::int32_t>(f);
    write_follower((next + f) % followers(), position + behind, step + behind);
  }
  followers_written_ = followers();
}

void Engine::drop_followers() noexcept {
  if (followers_in_flight_ == 0) return;
  program_->give_up();
  pages_.truncate(followed_slot_, static_cast<std::uint32_t>(tokens_[followed_slot_].size()));
  followers_in_flight_ = 0;
}

void Engine::step(std::span<const Row> rows, std::span<const SamplerInput> samplers, std::uint32_t followers) {
  if (rows.empty() || rows.size() > max_rows_ || samplers.size() > max_outputs_ ||
      (followers > 0 && (followers > this->followers() || rows.size() != 1 || samplers.size() != 1))) {
    throw Error(QUERN_INTERNAL, concat("a step of ", rows.size(), " rows, ", samplers.size(), " outputs and ", followers, " followers"));
  }
  drop_followers();
  try {
    followers = make_room(rows, followers);
    run_step(rows, samplers, followers);
  } catch (...) {  // pages of rows that were not computed
    for (std::uint32_t s = 0; s < sequences_; ++s) pages_.truncate(s, static_cast<std::uint32_t>(tokens_[s].size()));
    throw;
  }
}

std::uint32_t Engine::make_room(std::span<const Row> rows, std::uint32_t followers) {
  for (std::uint32_t s = 0; s < sequences_; ++s) lengths_[s] = written_from_[s] = static_cast<std::uint32_t>(tokens_[s].size());
  for (const Row& row : rows) {
    if (row.again) --written_from_.at(row.slot);
    else ++lengths_.at(row.slot);
  }
  for (std::uint32_t s = 0; s < sequences_; ++s) {
    if (lengths_[s] > context_)
      throw Error(QUERN_CONTEXT_FULL, concat("sequence ", s, " would have ", lengths_[s], " tokens; the context is ", context_));
    if (pages_.reserve(s, written_from_[s], lengths_[s])) continue;
    throw Error(QUERN_CONTEXT_FULL, concat("sequence ", s, " goes on from ", written_from_[s], " to ", lengths_[s], " tokens; ",
                                           pages_.free_pages(), " pages of ", pages_.page_size(),
                                           " are free, too few with a copy of a page that it shares; ", "truncate a sequence"));
  }
  if (followers == 0) return 0;
  const std::uint32_t slot = rows[0].slot, held = lengths_[slot];
  return held + followers <= context_ && pages_.reserve(slot, held, held + followers) ? followers : 0;
}

void Engine::run_step(std::span<const Row> rows, std::span<const SamplerInput> samplers, std::uint32_t followers) {
  const StepTrace traced(*this);
  write_rows(rows);
  write_samplers(rows, samplers);
  for (std::uint32_t f = 0; f < followers; ++f) {
    const auto behind = static_cast<std::int32_t>(f + 1);
    write_follower(f, row_position_[0] + behind, samplers[0].step + behind);
  }
  bounds_.clear();
  bounds_.push_back({step_.tokens, static_cast<std::int64_t>(rows.size())});
  bounds_.push_back({step_.outputs, static_cast<std::int64_t>(samplers.size())});
  results_.clear();
  if (!samplers.empty()) {
    results_.push_back({step_.sampled, std::as_writable_bytes(std::span(sampled_).first(samplers.size()))});
    results_.push_back({step_.logprob, std::as_writable_bytes(std::span(logprob_).first(samplers.size()))});
  }
  program_->run(bounds_, results_, std::span(follower_results_).first(followers));
  ++steps_;
  for (const Row& row : rows) {
    if (!row.again) tokens_[row.slot].push_back(row.token);
  }
  bytes_out_ +=
      samplers.size() * (sizeof(std::int32_t) + sizeof(float)) + followers * (sizeof(Follower::sampled) + sizeof(Follower::logprob));
  followed_slot_ = rows[0].slot;
  first_follower_ = 0;
  followers_in_flight_ = followers;
  followers_written_ = 0;
  traced.add(rows.size(), samplers.size(), followers);
}

void Engine::logits(std::uint32_t output, std::span<float> out) const {
  program_->read(step_.logits, static_cast<std::uint64_t>(output) * model_->shape().vocabulary * sizeof(float),
                 std::as_writable_bytes(out));
}

void Engine::hidden(std::uint32_t output, std::span<float> out) const {
  program_->read(step_.hidden, static_cast<std::uint64_t>(output) * model_->shape().hidden * sizeof(float), std::as_writable_bytes(out));
}

void Engine::operand_sums(const models::StepGraph::OperandSum& which, std::span<float> out) const {
  program_->read(which.value, 0, std::as_writable_bytes(out));
}

void Engine::start_trace() {
  trace_ = std::make_unique<Trace>();
  program_->record(trace_.get());
}

std::unique_ptr<Trace> Engine::take_trace() noexcept {
  program_->record(nullptr);
  return std::move(trace_);
}

void Engine::cancel() noexcept {
  cancel_requested_ = true;
  program_->cancel();  // a step of a prompt may take seconds
}

void Engine::clear_cancel() noexcept {
  cancel_requested_ = false;
  program_->clear_cancel();
}

}  // namespace quern::runtime
