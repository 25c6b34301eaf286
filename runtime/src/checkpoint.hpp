// What a training run keeps of itself: folders from which it goes on as if it had not ended.
//
//   OUTPUT/checkpoint-60/   adapter_config.json, adapter_model.safetensors   what is trained, as peft reads it
//                           optimizer.safetensors                            the moments, in the order of the flat state
//                           trainer_state.json                               written last: the counts, and size and SHA-256 of the others
//
// A checkpoint is written into a folder of another name, synced, and renamed. A folder whose files differ from its trainer_state.json is none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// Where a run is. With its settings, its data and its base this decides all that follows.
struct RunState {
  std::uint64_t step = 0;     // batches that were done
  std::uint64_t updates = 0;  // of them, those that changed weights: the others had gradients that were not finite
  std::uint64_t micro_batches = 0;
  std::uint64_t skipped_in_row = 0;
  std::uint64_t loss_scale = 1;  // of gradients in f16
  std::uint64_t updates_at_scale = 0;
  std::uint64_t tokens = 0, labels = 0;  // rows that were read, and labels that counted
  std::optional<double> best_loss;       // of the validation
  std::uint64_t best_step = 0;
  std::uint64_t evaluations_without_gain = 0;
  std::uint64_t losses_above_watchdog = 0;
  std::string base, data, settings;  // sums of what may not change between a run and the one that goes on
  std::string device;                // "cpu:0": another one gives other bits
};

/// The moments of an optimiser, of which a part at a time is in memory.
struct Moments {
  int count = 0;               // 0: it has none
  std::uint64_t elements = 0;  // of each
  std::function<void(int which, std::uint64_t first, std::span<float> numbers)> read;
};

struct Checkpoint {
  std::string folder;
  RunState state;
};

/// Makes OUTPUT/checkpoint-STEP and returns its path. `write_trained` writes the trained files into the folder that it is given. Throws
/// Error(QUERN_IO or QUERN_PERMISSION); what was there is then as it was. Removes what saves left that did not end.
std::string write_checkpoint(const std::string& output, const RunState& state, const Moments& moments,
                             const std::function<void(const std::string& folder)>& write_trained);

/// Steps of the folders checkpoint-N of a run, ascending, whole or not.
std::vector<std::uint64_t> checkpoint_steps(const std::string& output);
std::string checkpoint_folder(const std::string& output, std::uint64_t step);

/// Throws Error(QUERN_BAD_MODEL) with what is wrong for a folder that is no whole checkpoint.
Checkpoint read_checkpoint(const std::string& folder);
/// A moment of a checkpoint that read_checkpoint() gave. Throws Error(QUERN_BAD_MODEL) where it is not there, or has another number of elements.
std::vector<float> read_moment(const Checkpoint& checkpoint, int which, std::uint64_t elements);

/// The whole checkpoint of the highest step; one that a save had moved away when it was killed comes back. `refused` gets a sentence for
/// each later one that is not whole. Nothing: there is none.
std::optional<Checkpoint> last_checkpoint(const std::string& output, std::vector<std::string>& refused);

/// Removes checkpoints until `most` are left, but never `newest`, which was written last, nor `best`. Those of later steps go first, for the
/// run went back behind them; then the oldest.
void rotate_checkpoints(const std::string& output, std::size_t most, std::uint64_t newest, std::optional<std::uint64_t> best);

}  // namespace quern::runtime
