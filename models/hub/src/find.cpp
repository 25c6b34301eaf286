// hub::find: names into paths, from the cache alone.
#include "cached.hpp"
#include "directory_files.hpp"
#include "url_store.hpp"

#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <exception>

namespace quern::hub {

Error not_in_cache(const ModelName& name, const std::string& where) {
  return Error(QUERN_NOT_FOUND,
               concat(name.text, " is not in ", where, "; quern pull ", name.text, " gets it, quern list shows what is there"));
}

std::vector<Snapshot> all_snapshots_of(const ModelName& name, const Settings& settings) {
  const RepositoryFolder repository{settings.cache, name.repository};
  if (name.revision.empty()) return read_snapshots(repository);
  std::vector<Snapshot> snapshots;
  if (const auto commit = repository.commit_of(name.revision)) snapshots.push_back(read_snapshot(repository, *commit));
  return snapshots;
}

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

std::vector<std::size_t> files_of_directory(const Snapshot& snapshot) {
  const DirectoryFiles found = directory_files(snapshot.paths);
  if (!found.is_model()) return {};
  std::vector<std::size_t> files = {*found.config};
  if (found.weights) {
    files.push_back(*found.weights);
  } else {
    constexpr std::uint64_t most = 32 << 20;
    const std::string path = (snapshot.repository.snapshot(snapshot.commit) / snapshot.paths[*found.index]).string();
    std::string text;
    if (base::read_file(path, text, {.most = most})) return {};
    files.push_back(*found.index);
    try {
      for (const std::string& shard : shards_of_index(text, path)) {
        const auto at = std::ranges::find(snapshot.paths, shard);
        if (at == snapshot.paths.end()) return {};  // a pull that did not end
        files.push_back(static_cast<std::size_t>(at - snapshot.paths.begin()));
      }
    } catch (const Error&) { return {}; }  // an index that was spoiled here: what it names is not known
  }
  files.insert(files.end(), found.others.begin(), found.others.end());
  return files;
}

bool means_directory(const std::vector<Snapshot>& snapshots, const ModelName& name) {
  if (!name.selector.empty()) return selects_directory(name.selector);
  return std::ranges::all_of(snapshots, [](const Snapshot& s) { return s.variants.empty(); });
}

std::string find(const std::string& text, const Settings& settings) {
  const ModelName name = parse_model_name(text, settings.endpoint);
  if (!name.url.empty()) {
    const auto model = read_url_model(url_folder(settings.url_cache, name.url));
    if (!model) throw not_in_cache(name, settings.url_cache);
    return model->path();
  }
  const std::vector<Snapshot> all = all_snapshots_of(name, settings);
  if (means_directory(all, name)) {
    const auto found = std::ranges::find_if(all, [](const Snapshot& s) { return !files_of_directory(s).empty(); });
    if (found != all.end()) return found->repository.snapshot(found->commit).string();
    if (!name.selector.empty()) throw not_in_cache(name, settings.cache);
  }
  const std::vector<Snapshot> snapshots = snapshots_of(name, settings);
  const Found found = find_in(snapshots, name);
  return (found.snapshot->repository.snapshot(found.snapshot->commit) / found.variant->first).string();
}

}  // namespace quern::hub
