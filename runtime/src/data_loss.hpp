// The loss of a data set over its tokens that count: of a validation set while a model is trained, and of any set afterwards.
#pragma once

#include "trainer.hpp"
#include "training_engine.hpp"

#include "quern/training/examples.hpp"
#include "quern/training/settings.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace quern::runtime {

struct DataLoss {
  double loss = 0;  // the weighted mean over all labels, in nats
  std::uint64_t labels = 0;
  double seconds = 0;
};

/// Reads `micro_batch_size` examples at a time, which changes nothing but the order of sums. `progress` counts examples and returns false to
/// end it: Error(QUERN_CANCELLED).
DataLoss data_loss(TrainingEngine& engine, const training::Dataset& data, std::uint32_t micro_batch_size,
                   const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress = {});

/// An adapter by its path, at `scale` times its own scale.
struct ScaledAdapter {
  std::string path;
  double scale = 1;
};

/// As quern_training_evaluate_json() gives it: the loss of what the settings name, by the base with the adapter or alone. Throws Error: what
/// reading the base, the data or the adapter throws; QUERN_DOES_NOT_FIT before anything large is allocated.
std::string evaluate_data_json(std::shared_ptr<Runtime> runtime, const std::string& base_path, const training::Settings& settings,
                               const std::optional<ScaledAdapter>& adapter, const TrainingCallbacks& callbacks);

}  // namespace quern::runtime
