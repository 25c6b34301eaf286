// hub::pull: a model's files from the hub or a URL into their cache.
#include "cache_layout.hpp"
#include "directory_files.hpp"
#include "download.hpp"
#include "fetch.hpp"
#include "files.hpp"
#include "http.hpp"
#include "patience.hpp"
#include "repository.hpp"
#include "url_store.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/hub.hpp"

#include <algorithm>
#include <cstdio>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

/// One pull: its connection, its patience, and what has been said of it.
class Puller {
 public:
  explicit Puller(const Settings& settings)
      : told{settings, {}},
        patience(settings.tries, [this](const std::string& waiting) { return tell(waiting); }),
        http(http_options(settings, [this] { return tell({}); })) {}

  bool tell(const std::string& waiting) {
    told.state.waiting = waiting;
    return told.tell();
  }
  void begin_file(const std::string& name) {
    before_ = told.state.done;
    told.state.file = name;
  }
  void expect(std::uint64_t total) { told.state.total = total; }
  /// Of the current file.
  void moved(std::uint64_t done) {
    told.state.done = before_ + done;
    if (!tell({})) throw Error(QUERN_CANCELLED, "cancelled");
  }

 private:
  std::uint64_t before_ = 0;

 public:
  Told told;
  Patience patience;
  Http http;
};

std::uint64_t bytes_of(const std::vector<RemoteFile>& files) {
  std::uint64_t total = 0;
  for (const RemoteFile& file : files) total += std::min(file.bytes, UINT64_MAX - total);  // as the server states them
  return total;
}

/// What is loaded of a model.
std::uint64_t weight_bytes_of(std::vector<RemoteFile> files) {
  std::erase_if(files, [](const RemoteFile& file) { return !file.path.ends_with(".gguf") && !file.path.ends_with(".safetensors"); });
  return bytes_of(files);
}

/// Says how much it is, and refuses what memory or the disk cannot hold, before the first byte comes.
void announce(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files, const ModelName& name,
              Puller& puller) {
  puller.expect(bytes_of(files));
  if (!puller.tell({})) throw Error(QUERN_CANCELLED, "cancelled");
  const std::uint64_t weights = weight_bytes_of(files), most = puller.told.settings.memory_bytes;
  if (most != 0 && weights > most) {
    const auto [needed, limit] = byte_words_apart(weights, most);
    throw Error(QUERN_DOES_NOT_FIT, concat(name.text, " has weights of ", needed, ", and the limits of memory (--memory) are ", limit,
                                           " together; nothing was downloaded; name a smaller model or quantisation"));
  }
  require_room_for(repository, commit, files, name.text);
}

std::string pull_variant(const ModelName& name, const RemoteRepository& remote, const Variant& chosen, const std::string& sha256,
                         Puller& puller) {
  if (!sha256.empty() && (chosen.files.size() != 1 || remote.files[chosen.files[0]].sha256 != sha256)) {
    throw Error(QUERN_BAD_MODEL, concat(name.text, ": ", chosen.first, " has the SHA-256 ", remote.files[chosen.files[0]].sha256, " and ",
                                        sha256, " was asked for; nothing was downloaded"));
  }
  const RepositoryFolder repository{puller.told.settings.cache, name.repository};
  std::vector<RemoteFile> files;
  for (const std::size_t at : chosen.files) files.push_back(remote.files[at]);
  announce(repository, remote.commit, files, name, puller);
  fetch_all(repository, remote.commit, files, puller.told);
  return (repository.snapshot(remote.commit) / chosen.first).string();
}

/// A repository without a directory that is read, and with no GGUF file: says what it has.
void refuse_other_forms(const ModelName& name, const RemoteRepository& remote, const DirectoryFiles& found) {
  if (found.is_model()) return;
  if (found.has_adapter)
    throw Error(QUERN_UNSUPPORTED, concat(name.text, ": ", name.repository,
                                          " is an adapter without its base; pull the base, and run it with "
                                          "--adapter and the adapter's folder"));
  if (found.config && found.pickle)
    throw Error(QUERN_UNSUPPORTED,
                concat(name.text, ": ", name.repository, " has its weights in ", in_quotes(remote.files[*found.pickle].path, 100),
                       ", a pickle file, which may run code; name a repository with safetensors or GGUF files"));
  throw Error(QUERN_NOT_FOUND, concat(name.text, ": there is no whole GGUF model in ", name.repository,
                                      ", nor config.json with model.safetensors or its index"));
}

/// The shards that the index names, which is downloaded for it.
std::vector<RemoteFile> pull_index(const RepositoryFolder& repository, const RemoteRepository& remote, const RemoteFile& index,
                                   Puller& puller) {
  constexpr std::uint64_t most = 32 << 20;
  if (index.bytes > most)
    throw Error(QUERN_BAD_MODEL,
                concat(index.path, " has ", byte_words(index.bytes), "; an index of at most ", byte_words(most), " is read"));
  fetch_all(repository, remote.commit, {index}, puller.told);
  std::string text;
  check_read(base::read_file((repository.snapshot(remote.commit) / index.path).string(), text, {.most = most}));
  std::vector<RemoteFile> shards;
  for (const std::string& shard : shards_of_index(text, index.path)) {
    const auto at = std::ranges::find(remote.files, shard, &RemoteFile::path);
    if (at == remote.files.end())
      throw Error(QUERN_BAD_MODEL,
                  concat(index.path, ": names ", in_quotes(shard, 100), ", which ", repository.repository, " does not have"));
    shards.push_back(*at);
  }
  return shards;
}

/// config.json comes last: a folder without it is no model yet.
std::string pull_directory(const ModelName& name, const RemoteRepository& remote, const DirectoryFiles& found, Puller& puller) {
  const RepositoryFolder repository{puller.told.settings.cache, name.repository};
  std::vector<RemoteFile> files;
  if (found.weights) files.push_back(remote.files[*found.weights]);
  else files = pull_index(repository, remote, remote.files[*found.index], puller);
  for (const std::size_t at : found.others) files.push_back(remote.files[at]);
  const RemoteFile& config = remote.files[*found.config];
  std::vector<RemoteFile> all = files;
  all.push_back(config);
  if (found.index) all.push_back(remote.files[*found.index]);
  announce(repository, remote.commit, all, name, puller);
  fetch_all(repository, remote.commit, files, puller.told);
  fetch_all(repository, remote.commit, {config}, puller.told);
  return repository.snapshot(remote.commit).string();
}

std::string pull_from_hub(const ModelName& name, const std::string& sha256, const Settings& settings) {
  Puller puller(settings);
  const RemoteRepository remote = read_remote(settings.endpoint, name, !settings.token.empty(), puller.http, puller.patience);
  std::vector<std::string> paths;
  for (const RemoteFile& file : remote.files) paths.push_back(file.path);
  const std::vector<Variant> variants = variants_of(paths);
  const DirectoryFiles directory = directory_files(paths);
  const bool as_directory = selects_directory(name.selector) || (name.selector.empty() && variants.empty());
  if (variants.empty() && !directory.is_model() && remote.refused > 0)
    throw Error(QUERN_NOT_FOUND,
                concat(name.text, ": there is no whole GGUF model among the ", counted(remote.files.size(), "file"), " of ",
                       name.repository, " that may be taken; the hub lists ", remote.refused, " more whose name or sum is refused"));
  std::string path;
  if (as_directory) {
    refuse_other_forms(name, remote, directory);
    if (!sha256.empty())
      throw Error(QUERN_INVALID_ARGUMENT, concat("a SHA-256 was given, and ", name.text, " is a directory of several files"));
    path = pull_directory(name, remote, directory, puller);
  } else {
    path = pull_variant(name, remote, choose_variant(variants, name), sha256, puller);
  }
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  if (revision != remote.commit && !remote.commit.starts_with(revision))
    write_small(RepositoryFolder{settings.cache, name.repository}.ref(revision), remote.commit);
  return path;
}

/// A URL for each part of a split file.
std::vector<std::string> urls_of_parts(const std::string& url) {
  const std::string bare = url.substr(0, url.find_first_of("?#"));
  const Part part = part_of(bare);
  if (part.count == 1) return {url};
  std::vector<std::string> urls;
  for (std::uint32_t number = 1; number <= part.count; ++number) {
    char tail[40];
    std::snprintf(tail, sizeof(tail), "-%05u-of-%05u.gguf", number, part.count);
    urls.push_back(concat(part.stem, tail, url.substr(bare.size())));
  }
  return urls;
}

void require_gguf(const fs::path& path, const std::string& url) {
  std::string magic;
  check_read(base::read_head(path.string(), magic, 4));
  if (magic == "GGUF") return;
  std::error_code ignored;
  fs::remove(path, ignored);
  throw Error(QUERN_BAD_MODEL, concat(url, " is not a GGUF file; it was removed (a page that asks for a login looks like this)"));
}

UrlFile pull_url_file(const std::string& url, const fs::path& folder, const std::string& sha256, const Settings& settings, Puller& puller) {
  UrlFile file{file_name_of_url(url), 0, {}};
  if (!is_safe_path(file.name) || file.name.find('/') != file.name.npos) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(in_quotes(url, 200), " names no file"));
  }
  puller.begin_file(file.name);
  Download wanted;
  wanted.url = url;
  wanted.label = file.name;
  wanted.incomplete = folder / (file.name + ".incomplete");
  wanted.sha256 = sha256;
  wanted.most_bytes = settings.most_bytes;
  const fs::path tag = folder / (file.name + ".tag");
  wanted.if_range = read_small(tag).value_or("");
  std::error_code failed;
  if (wanted.if_range.empty()) fs::remove(wanted.incomplete, failed);  // of which file it is the start cannot be known
  wanted.moved = [&](std::uint64_t done, std::uint64_t total) {
    puller.expect(total);
    puller.moved(done);
  };
  wanted.begun = [&](const Response& response) {
    const std::string etag = response.header("etag");
    const std::string now = !etag.empty() && !etag.starts_with("W/") ? etag : response.header("last-modified");
    wanted.if_range = now;
    write_small(tag, now);
  };
  const Downloaded done = download(wanted, puller.http, puller.patience);
  require_gguf(wanted.incomplete, url);
  check_written(base::move_file(wanted.incomplete.string(), (folder / file.name).string()));
  fs::remove(tag, failed);
  file.bytes = done.bytes;
  file.sha256 = done.sha256;
  return file;
}

std::string pull_from_url(const std::string& url, const std::string& sha256, const Settings& settings) {
  const std::vector<std::string> urls = urls_of_parts(url);
  if (!sha256.empty() && urls.size() > 1)
    throw Error(QUERN_INVALID_ARGUMENT, concat("a SHA-256 was given, and ", in_quotes(url, 200), " is one of ", urls.size(), " files"));
  const fs::path folder = url_folder(settings.url_cache, urls.front());
  Puller puller(settings);
  const Lock lock(folder / ".lock", settings.waits, [&] { return puller.tell("another process downloads it"); });
  if (const auto here = read_url_model(folder); here && (sha256.empty() || here->files.front().sha256 == sha256)) return here->path();
  UrlModel model{folder, urls.front(), {}};
  for (const std::string& one : urls) model.files.push_back(pull_url_file(one, folder, sha256, settings, puller));
  write_url_model(model);
  return model.path();
}

}  // namespace

std::string pull(const std::string& text, const std::string& sha256, const Settings& settings) {
  const ModelName name = parse_model_name(text, settings.endpoint);
  if (!sha256.empty() && !is_hex(sha256, 64))
    throw Error(QUERN_INVALID_ARGUMENT, concat(in_quotes(sha256, 200), " is not a SHA-256: 64 hex digits in lower case"));
  if (settings.offline) {
    try {
      return find(text, settings);
    } catch (const Error& missing) {
      if (missing.code() != QUERN_NOT_FOUND) throw;
      throw Error(QUERN_NOT_FOUND, concat(text, " is not in the cache, and the network may not be asked (HF_HUB_OFFLINE, --offline)"));
    }
  }
  return name.url.empty() ? pull_from_hub(name, sha256, settings) : pull_from_url(name.url, sha256, settings);
}

}  // namespace quern::hub
