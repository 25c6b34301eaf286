// hub::remove: links, then the blobs that no link needs any more, then empty folders.
#include "cached.hpp"
#include "files.hpp"
#include "url_store.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/folder.hpp"

#include <cerrno>
#include <set>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

void remove_or_throw(const fs::path& path) {
  std::error_code failed;
  fs::remove(path, failed);
  if (failed) throw Error(QUERN_IO, concat(path.string(), ": cannot be removed: ", failed.message()));
}

/// The folders from `path` up to but not including `top`, as long as they are empty.
void remove_empty_folders(fs::path path, const fs::path& top) {
  std::error_code failed;
  for (; path != top && names_in(path.string(), 1).empty() && !failed; path = path.parent_path()) fs::remove(path, failed);
}

/// Names of all blobs that some snapshot links to.
std::set<std::string> linked_blobs(const RepositoryFolder& repository) {
  std::set<std::string> names;
  const fs::path root = repository.folder() / "snapshots";
  for (const std::string& path : paths_below(root.string())) {
    std::error_code none;
    if (fs::is_symlink(root / path, none)) names.insert(fs::read_symlink(root / path, none).filename().string());
  }
  return names;
}

/// Files of a snapshot go; the answer has the blobs that they were and the bytes of those that were no links.
std::uint64_t remove_files(const Snapshot& snapshot, const std::vector<std::size_t>& files, std::set<std::string>& blobs) {
  const fs::path root = snapshot.repository.snapshot(snapshot.commit);
  std::uint64_t freed = 0;
  for (const std::size_t at : files) {
    const fs::path path = root / snapshot.paths[at];
    std::error_code failed;
    if (fs::is_symlink(path, failed)) {
      blobs.insert(fs::read_symlink(path, failed).filename().string());
    } else {
      freed += fs::file_size(path, failed);
    }
    remove_or_throw(path);
    remove_empty_folders(path.parent_path(), snapshot.repository.folder());
  }
  return freed;
}

std::uint64_t remove_blobs(const RepositoryFolder& repository, const std::set<std::string>& blobs) {
  std::uint64_t freed = 0;
  const std::set<std::string> needed = linked_blobs(repository);
  for (const std::string& name : blobs) {
    if (needed.contains(name) || name.empty()) continue;
    const auto lock = Lock::try_at_once(repository.lock(name));
    if (!lock) throw Error(QUERN_BUSY, concat(repository.repository, ": another process downloads ", name));
    std::error_code failed;
    const std::uint64_t bytes = fs::file_size(repository.blob(name), failed);
    remove_or_throw(repository.blob(name));
    freed += failed ? 0 : bytes;
  }
  std::error_code failed;
  if (!fs::exists(repository.folder() / "snapshots", failed)) {  // nothing is left of it but refs and half blobs
    remove_tree(repository.lock("x").parent_path().string());
    remove_tree(repository.folder().string());
  }
  return freed;
}

std::uint64_t remove_url_model(const ModelName& name, const Settings& settings) {
  const fs::path folder = url_folder(settings.url_cache, name.url);
  const auto model = read_url_model(folder);
  if (!model) throw Error(QUERN_NOT_FOUND, concat(name.text, " is not in ", settings.url_cache, "; quern list shows what is there"));
  std::uint64_t freed = 0;
  for (const UrlFile& file : model->files) freed += file.bytes;
  if (!remove_tree(folder.string())) throw Error(QUERN_IO, concat(folder.string(), ": cannot be removed: ", system_reason(errno)));
  return freed;
}

}  // namespace

std::uint64_t remove(const std::string& text, const Settings& settings) {
  const ModelName name = parse_model_name(text, settings.endpoint);
  if (!name.url.empty()) return remove_url_model(name, settings);
  std::set<std::string> blobs;
  std::uint64_t freed = 0;
  if (const std::vector<Snapshot> all = all_snapshots_of(name, settings); means_directory(all, name)) {
    bool found = false;
    for (const Snapshot& snapshot : all) {
      const std::vector<std::size_t> files = files_of_directory(snapshot);
      found = found || !files.empty();
      freed += remove_files(snapshot, files, blobs);
    }
    if (found) return freed + remove_blobs(all.front().repository, blobs);
    if (!name.selector.empty()) throw not_in_cache(name, settings.cache);
  }
  const std::vector<Snapshot> snapshots = snapshots_of(name, settings);
  if (name.selector.empty()) {
    for (const Snapshot& snapshot : snapshots)
      for (const Variant& variant : snapshot.variants) freed += remove_files(snapshot, variant.files, blobs);
  } else {
    const Found found = find_in(snapshots, name);
    freed += remove_files(*found.snapshot, found.variant->files, blobs);
  }
  return freed + remove_blobs(snapshots.front().repository, blobs);
}

}  // namespace quern::hub
