// hub::find: names into paths, from the cache alone.
#include "cached.hpp"
#include "url_store.hpp"

#include "quern/graph/file_error.hpp"

#include <exception>

namespace quern::hub {

Error not_in_cache(const ModelName& name, const std::string& where) {
  return Error(QUERN_NOT_FOUND,
               concat(name.text, " is not in ", where, "; quern pull ", name.text, " gets it, quern list shows what is there"));
}

std::vector<Snapshot> snapshots_of(const ModelName& name, const Settings& settings) {
  const RepositoryFolder repository{settings.cache, name.repository};
  std::vector<Snapshot> snapshots;
  if (name.revision.empty()) {
    snapshots = read_snapshots(repository);
  } else if (const auto commit = repository.commit_of(name.revision)) {
    snapshots.push_back(read_snapshot(repository, *commit));
  }
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

std::string find(const std::string& text, const Settings& settings) {
  const ModelName name = parse_model_name(text, settings.endpoint);
  if (!name.url.empty()) {
    const auto model = read_url_model(url_folder(settings.url_cache, name.url));
    if (!model) throw not_in_cache(name, settings.url_cache);
    return model->path();
  }
  const std::vector<Snapshot> snapshots = snapshots_of(name, settings);
  const Found found = find_in(snapshots, name);
  return (found.snapshot->repository.snapshot(found.snapshot->commit) / found.variant->first).string();
}

}  // namespace quern::hub
