// Which file holds the packed weights of a model on a device, when it may be used, and how much such files may take.
//
// The key of a file names the plugin's build, the processor's architecture, each shard of the model (size, inode, times of change),
// the sum of all tensors' heads and samples, and every item with its layout key. So a model that was written to since, by any means
// that the system notices, is packed anew; `verify` also finds a change that the system did not notice. A file is slotted by the
// model's path, so that a changed model replaces its own file. Only for devices with host memory.
#pragma once

#include "model_weights.hpp"
#include "runtime.hpp"

#include "quern/sdk/thread.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// What became of the cache for one device.
struct WeightsOrigin {
  bool cached = false;  // the weights are a mapping of `file`
  std::string file;     // "": no file is used or will be written
  std::string note;     // why not, for people; "" if there is nothing to say
};

/// One thread at a time. The model's file must live as long.
class WeightsCache {
 public:
  WeightsCache(const Runtime& runtime, const gguf::File& model, std::uint64_t fingerprint);

  /// The arena of a device's `weights` (in order, each padded to its arena_bytes) as a mapping of a file; nothing where there is none
  /// to use. Either way `origin` says what happened, and the log does at info level. Throws Error(QUERN_OUT_OF_MEMORY) as allocate.
  std::optional<Memory> find(MemoryBudget& device, const std::vector<WantedWeight>& weights, WeightsOrigin& origin);

  /// Writes a file of the arena that find() did not give; the thread does the slow part, and ends by itself. The arena must not change
  /// and outlive it. Nothing to run: the cache is off, or origin.note now says why it is not written.
  std::optional<sdk::Thread> keep(MemoryBudget& device, const std::vector<WantedWeight>& weights, const Memory& arena,
                                  WeightsOrigin& origin);

 private:
  struct Slot;
  std::optional<Slot> slot(MemoryBudget& device, const std::vector<WantedWeight>& weights, WeightsOrigin& origin) const;
  std::uint64_t content();

  std::shared_ptr<const Runtime> runtime_;
  const gguf::File& model_;
  std::uint64_t fingerprint_;
  std::optional<std::uint64_t> content_;
};

/// Removes files of weights in `folder`, the least recently used first, until `needed` more bytes stay below `limit` (0: none). The
/// file `replaced` counts as gone already and stays. False if that cannot be.
bool make_room(const std::string& folder, const std::string& replaced, std::uint64_t needed, std::uint64_t limit);

}  // namespace quern::runtime
