// hub::find: names into paths, from the cache alone.
#include "cached.hpp"
#include "url_store.hpp"

#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>

namespace quern::hub {

Error not_in_cache(const ModelName& name, const std::string& where) {
  return Error(QUERN_NOT_FOUND,
               concat(name.text, " is not in ", where, "; quern pull ", name.text, " gets it, quern list shows what is there"));
}

namespace {

std::vector<Snapshot> all_snapshots_of(const ModelName& name, const Settings& settings) {
  const RepositoryFolder repository{settings.cache, name.repository};
  if (name.revision.empty()) return read_snapshots(repository);
  std::vector<Snapshot> snapshots;
  if (const auto commit = repository.commit_of(name.revision)) snapshots.push_back(read_snapshot(repository, *commit));
  return snapshots;
}

}  // namespace

std::vector<Snapshot> snapshots_of(const ModelName& name, const Settings& settings) {
  std::vector<Snapshot> snapshots = all_snapshots_of(name, settings);
  std::string broken;
  for (const Snapshot& snapshot : snapshots) broken = broken.empty() ? snapshot.broken : broken;
  std::erase_if(snapshots, [](const Snapshot& s) { return s.variants.empty(); });
  if (snapshots.empty() && !broken.empty()) {
    base::OpenedFile file;
    check_read(base::open_file(broken, file));
  }
  if (snapshots.empty()) throw not_in_cache(name, settings.cache);
  return snapshots;
}

Found find_in(const std::vector<Snapshot>& snapshots, const ModelName& name) {
  std::exception_ptr first;
  for (const Snapshot& snapshot : snapshots) {
    try {
      return {&snapshot, &choose_variant(snapshot.variants, name)};
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

namespace {

bool is_model_directory(const Snapshot& snapshot) {
  const auto has = [&](std::string_view path) { return std::ranges::find(snapshot.paths, path) != snapshot.paths.end(); };
  return has("config.json") && (has("model.safetensors") || has("model.safetensors.index.json"));
}

/// The folder of a repository that has a model as a directory, and no GGUF file.
std::optional<std::string> find_directory(const ModelName& name, const Settings& settings) {
  if (!name.selector.empty()) return std::nullopt;
  const std::vector<Snapshot> snapshots = all_snapshots_of(name, settings);
  if (std::ranges::any_of(snapshots, [](const Snapshot& s) { return !s.variants.empty(); })) return std::nullopt;
  const auto found = std::ranges::find_if(snapshots, is_model_directory);
  return found == snapshots.end() ? std::nullopt : std::optional(found->repository.snapshot(found->commit).string());
}

}  // namespace

std::string find(const std::string& text, const Settings& settings) {
  const ModelName name = parse_model_name(text, settings.endpoint);
  if (!name.url.empty()) {
    const auto model = read_url_model(url_folder(settings.url_cache, name.url));
    if (!model) throw not_in_cache(name, settings.url_cache);
    return model->path();
  }
  if (const std::optional<std::string> folder = find_directory(name, settings)) return *folder;
  const std::vector<Snapshot> snapshots = snapshots_of(name, settings);
  const Found found = find_in(snapshots, name);
  return (found.snapshot->repository.snapshot(found.snapshot->commit) / found.variant->first).string();
}

}  // namespace quern::hub
