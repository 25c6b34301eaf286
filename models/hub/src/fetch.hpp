// Several files at once from the hub into its cache, on threads of their own.
#pragma once

#include "cache_layout.hpp"
#include "http.hpp"
#include "repository.hpp"

#include "quern/models/hub.hpp"

#include <functional>
#include <string>
#include <vector>

namespace quern::hub {

/// What a pull says of itself. `state.total` is what its files have together, where that is known.
struct Told {
  const Settings& settings;
  Progress state;

  /// False where the caller cancels.
  bool tell() const { return !settings.progress || settings.progress(state); }
};

/// How a pull asks: its token, its patience with slow servers. `go_on` is asked while bytes come.
Http::Options http_options(const Settings& settings, std::function<bool()> go_on);

/// Downloads what is not here and points the snapshot to it, four files at a time. Progress is told on the calling thread. Where one fails,
/// the others stop, and what has come of them is kept. Throws as hub::pull().
void fetch_all(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files, Told& told);

/// Throws Error(QUERN_IO) where the disk has less room than the files still need; `what` names them.
void require_room_for(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files,
                      const std::string& what);

}  // namespace quern::hub
