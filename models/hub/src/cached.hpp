// What a name means in the cache.
#pragma once

#include "cache_layout.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/hub.hpp"

#include <vector>

namespace quern::hub {

/// The snapshots that a name may mean, in the order in which they are asked. Throws Error(QUERN_NOT_FOUND) where there is none.
std::vector<Snapshot> snapshots_of(const ModelName& name, const Settings& settings);

/// The first snapshot with the model. Throws as choose_variant(), of the first one.
struct Found {
  const Snapshot* snapshot;
  const Variant* variant;
};
Found find_in(const std::vector<Snapshot>& snapshots, const ModelName& name);

Error not_in_cache(const ModelName& name, const std::string& where);

}  // namespace quern::hub
