// Several files at once from the hub into its cache, on threads of their own.
#pragma once

#include "cache_layout.hpp"
#include "repository.hpp"

#include "quern/models/hub.hpp"

#include <cstdint>
#include <vector>

namespace quern::hub {

/// What a pull says of itself. `state.total` is what its files have together, where that is known.
struct Told {
  const Settings& settings;
  Progress state;

  /// False where the caller cancels.
  bool tell() const { return !settings.progress || settings.progress(state); }
};

/// Downloads what is not here and points the snapshot to it, four files at a time. Progress is told on the calling thread. Where one fails,
/// the others stop, and what has come of them is kept. Throws as hub::pull().
void fetch_all(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files, Told& told);

/// Throws Error(QUERN_IO) where the disk has less room than the files still need; `what` names them.
void require_room_for(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files,
                      const std::string& what);

}  // namespace quern::hub
