// hub::list: what is in the cache.
#include "cache_layout.hpp"
#include "url_store.hpp"

#include "quern/models/hub.hpp"

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

CachedModel model_of(const Snapshot& snapshot, const Variant& variant, bool first_snapshot) {
  const fs::path root = snapshot.repository.snapshot(snapshot.commit);
  CachedModel model;
  const std::string revision = first_snapshot ? "" : "@" + snapshot.commit.substr(0, 12);
  model.name = snapshot.repository.repository + revision + ":" + selector_of(snapshot.variants, variant);
  model.path = (root / variant.first).string();
  for (const std::size_t at : variant.files) {
    std::error_code failed;
    model.bytes += fs::file_size(root / snapshot.paths[at], failed);
  }
  model.files = variant.files.size();
  model.repository = snapshot.repository.repository;
  model.revision = snapshot.commit;
  model.quantisation = variant.quantisation;
  model.source = "hub";
  model.modified = modified(model.path);
  return model;
}

}  // namespace

std::vector<CachedModel> list(const Settings& settings) {
  std::vector<CachedModel> models;
  for (const RepositoryFolder& repository : read_repositories(settings.cache)) {
    bool first = true;
    for (const Snapshot& snapshot : read_snapshots(repository)) {
      for (const Variant& variant : snapshot.variants) models.push_back(model_of(snapshot, variant, first));
      first = first && snapshot.variants.empty();
    }
  }
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
