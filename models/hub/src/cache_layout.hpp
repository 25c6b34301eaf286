// Where things lie in the cache that all clients of the hub share.
//
//   models--OWNER--NAME/refs/REVISION           the commit that a branch or tag meant when it was last asked for
//   models--OWNER--NAME/snapshots/COMMIT/FILE   a relative link to the blob
//   models--OWNER--NAME/blobs/ETAG              the bytes: named by their SHA-256, small ones by their Git hash
//   .locks/models--OWNER--NAME/ETAG.lock        held (flock) while the blob is downloaded
#pragma once

#include "variants.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace quern::hub {

struct RepositoryFolder {
  std::filesystem::path cache;
  std::string repository;  // "owner/name"

  std::filesystem::path folder() const;
  std::filesystem::path blob(const std::string& etag) const { return folder() / "blobs" / etag; }
  std::filesystem::path incomplete(const std::string& etag) const { return folder() / "blobs" / (etag + ".incomplete"); }
  std::filesystem::path lock(const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder() / "snapshots" / commit; }
  std::filesystem::path ref(const std::string& revision) const { return folder() / "refs" / revision; }

  /// The commit that a branch, a tag, a commit or the start of one (7 digits or more) means here.
  std::optional<std::string> commit_of(const std::string& revision) const;
};

/// One commit of a repository as far as it lies here.
struct Snapshot {
  RepositoryFolder repository;
  std::string commit;
  std::vector<std::string> paths;  // files whose bytes are here, relative to the snapshot
  std::vector<Variant> variants;   // of these
  std::string broken;              // a model file that is no file: a link to nowhere, a pipe; empty if there is none
};

Snapshot read_snapshot(const RepositoryFolder& repository, const std::string& commit);

/// That of main first, then the others, the newest first.
std::vector<Snapshot> read_snapshots(const RepositoryFolder& repository);

/// All repositories of models in a cache, by name.
std::vector<RepositoryFolder> read_repositories(const std::filesystem::path& cache);

/// Makes snapshots/COMMIT/PATH point to the blob. Where the file system has no links, the blob moves there.
void point_to_blob(const RepositoryFolder& repository, const std::string& commit, const std::string& path, const std::string& etag);

}  // namespace quern::hub
