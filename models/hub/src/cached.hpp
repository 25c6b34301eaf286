// What a name means in the cache.
#pragma once

#include "cache_layout.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/hub.hpp"

#include <vector>

namespace quern::hub {

/// The snapshots that a name may mean, in the order in which they are asked. Throws Error(QUERN_NOT_FOUND) where there is none.
std::vector<Snapshot> snapshots_of(const ModelName& name, const Settings& settings);

/// All of them, without a question whether they have a model.
std::vector<Snapshot> all_snapshots_of(const ModelName& name, const Settings& settings);

/// The files of a model as a directory, where all that it needs is here: indices of the snapshot's paths, config.json first; else none.
std::vector<std::size_t> files_of_directory(const Snapshot& snapshot);

/// Whether the name means a directory: it says so, or none of the snapshots has a GGUF model.
bool means_directory(const std::vector<Snapshot>& snapshots, const ModelName& name);

/// The first snapshot with the model. Throws as choose_variant(), of the first one.
struct Found {
  const Snapshot* snapshot;
  const Variant* variant;
};
Found find_in(const std::vector<Snapshot>& snapshots, const ModelName& name);

Error not_in_cache(const ModelName& name, const std::string& where);

}  // namespace quern::hub
