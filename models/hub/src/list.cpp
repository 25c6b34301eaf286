// hub::list: what is in the cache.
#include "cached.hpp"
#include "directory_files.hpp"
#include "url_store.hpp"

#include "quern/models/hub.hpp"

#include <algorithm>
#include <chrono>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

std::int64_t modified(const fs::path& path) {
  std::error_code failed;
  const auto time = fs::last_write_time(path, failed);
  if (failed) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

/// `files` are indices of the snapshot's paths, the one that is dated first.
CachedModel model_of(const Snapshot& snapshot, const std::vector<std::size_t>& files, bool first_snapshot, const std::string& selector) {
  const fs::path root = snapshot.repository.snapshot(snapshot.commit);
  CachedModel model;
  const std::string revision = first_snapshot ? "" : "@" + snapshot.commit.substr(0, 12);
  model.name = snapshot.repository.repository + revision + (selector.empty() ? "" : ":") + selector;
  for (const std::size_t at : files) {
    std::error_code failed;
    model.bytes += fs::file_size(root / snapshot.paths[at], failed);
  }
  model.files = files.size();
  model.repository = snapshot.repository.repository;
  model.revision = snapshot.commit;
  model.source = "hub";
  model.modified = modified(root / snapshot.paths[files.front()]);
  return model;
}

void list_repository(const RepositoryFolder& repository, std::vector<CachedModel>& models) {
  const std::vector<Snapshot> snapshots = read_snapshots(repository);
  const bool has_variants = std::ranges::any_of(snapshots, [](const Snapshot& s) { return !s.variants.empty(); });
  bool first = true;
  for (const Snapshot& snapshot : snapshots) {
    const fs::path root = repository.snapshot(snapshot.commit);
    for (const Variant& variant : snapshot.variants) {
      CachedModel model = model_of(snapshot, variant.files, first, selector_of(snapshot.variants, variant));
      model.path = (root / variant.first).string();
      model.quantisation = variant.quantisation;
      models.push_back(std::move(model));
    }
    const std::vector<std::size_t> directory = files_of_directory(snapshot);
    if (!directory.empty()) {
      CachedModel model = model_of(snapshot, directory, first, has_variants ? std::string(directory_selector) : "");
      model.path = root.string();
      models.push_back(std::move(model));
    }
    first = first && snapshot.variants.empty() && directory.empty();
  }
}

}  // namespace

std::vector<CachedModel> list(const Settings& settings) {
  std::vector<CachedModel> models;
  for (const RepositoryFolder& repository : read_repositories(settings.cache)) list_repository(repository, models);
  for (const UrlModel& stored : read_url_models(settings.url_cache)) {
    CachedModel model;
    model.name = stored.url;
    model.path = stored.path();
    for (const UrlFile& file : stored.files) model.bytes += file.bytes;
    model.files = stored.files.size();
    model.quantisation = quantisation_of(stored.files.front().name);
    model.source = "url";
    model.modified = modified(model.path);
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace quern::hub
