// Adapters that a loaded model runs with: read from files, laid out for its step, and one of them for each sequence of a session.
#pragma once

#include "program.hpp"

#include "quern/models/architecture.hpp"
#include "quern/models/peft.hpp"

#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

class Model;

/// A PEFT folder or its adapter_model.safetensors, or a GGUF adapter for this base. Throws what their readers throw, and
/// Error(QUERN_BAD_MODEL) for one that does not fit.
peft::Adapter read_adapter(const std::string& path, const peft::BaseShape& base);

/// Rows of B as a file of this base has them, from Hugging Face's order, or the other way.
std::vector<float> in_file_order(const peft::BaseShape& base, peft::Target target, std::vector<float> b, std::int64_t rank, bool to_file);

/// The products that any of these adapters changes, each with the highest rank that one has there.
std::vector<models::AdaptedProduct> adapted_products(const std::vector<std::string>& paths, const peft::BaseShape& base);

/// Makes a step that these adapters may be used with at a time.
void add_adapters(models::StepOptions& step, const std::vector<std::string>& paths, const models::Hyperparameters& shape);

/// An adapter for a model, with the rows of B in the order of the model's file.
class LoadedAdapter {
 public:
  /// Throws what read_adapter() throws, and Error(QUERN_INVALID_ARGUMENT) where the model was not loaded for its products or ranks.
  LoadedAdapter(std::shared_ptr<const Model> model, const std::string& path);

  const Model& model() const noexcept { return *model_; }
  const std::string& path() const noexcept { return path_; }
  const peft::Adapter& adapter() const noexcept { return adapter_; }
  /// Changes with its numbers: saved states carry it.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// What it has for a product of the model's step; null if nothing.
  const peft::AdapterMatrix* matrix(std::size_t adapted) const { return of_product_.at(adapted); }

 private:
  std::shared_ptr<const Model> model_;
  std::string path_;
  peft::Adapter adapter_;
  std::vector<const peft::AdapterMatrix*> of_product_;  // by StepGraph::adapted
  std::uint64_t fingerprint_ = 0;
};

/// Which adapter each sequence of a session has. The numbers lie once for all sequences of an adapter; a sequence has its own scale.
class AdapterPool {
 public:
  AdapterPool(const models::StepGraph& step, std::uint32_t places, std::uint32_t sequences);

  /// Gives a sequence an adapter (null: none) at `scale` times its own. Throws Error(QUERN_INVALID_ARGUMENT) where all places are taken.
  void use(Program& program, std::uint32_t sequence, std::shared_ptr<const LoadedAdapter> adapter, double scale);
  void copy(Program& program, std::uint32_t from, std::uint32_t to);

  /// What lora_matmul takes as the slot of a row of this sequence.
  std::int32_t slot(std::uint32_t sequence) const { return uses_[sequence].adapter == nullptr ? -1 : static_cast<std::int32_t>(sequence); }
  bool uses(std::uint32_t sequence, const LoadedAdapter* adapter, double scale) const;
  /// Of all sequences with an adapter: which it is, and its scale. 0: none has one.
  std::uint64_t fingerprint() const noexcept;

 private:
  struct Use {
    std::shared_ptr<const LoadedAdapter> adapter;
    std::size_t place = 0;
    double scale = 1;
  };
  std::size_t place_for(std::uint32_t sequence, const std::shared_ptr<const LoadedAdapter>& adapter) const;
  void write_numbers(Program& program, std::size_t place, const LoadedAdapter& adapter) const;
  void write_table(Program& program, std::uint32_t sequence) const;

  const models::StepGraph& step_;
  std::vector<std::shared_ptr<const LoadedAdapter>> held_;  // by place: whose numbers lie there
  std::vector<Use> uses_;                                   // by sequence
};

}  // namespace quern::runtime
