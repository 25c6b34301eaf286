// hub::pull: a model's files from the hub or a URL into their cache.
#include "cache_layout.hpp"
#include "download.hpp"
#include "files.hpp"
#include "http.hpp"
#include "patience.hpp"
#include "repository.hpp"
#include "url_store.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/hub.hpp"

#include <cstdio>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

/// One pull: its connection, its patience, and what has been said of it.
class Puller {
 public:
  explicit Puller(const Settings& settings)
      : settings_(settings),
        patience(settings.tries, [this](const std::string& waiting) { return tell(waiting); }),
        http({settings.token, settings.token.empty() ? "" : origin_of(settings.endpoint), settings.timeout, settings.least_rate,
              [this] { return tell({}); }}) {}

  bool tell(const std::string& waiting) {
    state_.waiting = waiting;
    return !settings_.progress || settings_.progress(state_);
  }
  void begin_file(const std::string& name) {
    before_ = state_.done;
    state_.file = name;
  }
  void expect(std::uint64_t total) { state_.total = total; }
  /// Of the current file.
  void moved(std::uint64_t done) {
    state_.done = before_ + done;
    if (!tell({})) throw Error(QUERN_CANCELLED, "cancelled");
  }

 private:
  const Settings& settings_;
  Progress state_;
  std::uint64_t before_ = 0;

 public:
  Patience patience;
  Http http;
};

void rename_into_place(const fs::path& from, const fs::path& to) { check_written(base::move_file(from.string(), to.string())); }

bool has_size(const fs::path& path, std::uint64_t bytes) {
  std::error_code missing;
  return fs::file_size(path, missing) == bytes && !missing;
}

void pull_blob(const RepositoryFolder& repository, const std::string& commit, const RemoteFile& file, const Settings& settings,
               Puller& puller) {
  puller.begin_file(file.path);
  const fs::path blob = repository.blob(file.etag), named = repository.snapshot(commit) / file.path;
  if (!has_size(named, file.bytes)) {
    // The name is made under the lock too: of two pulls that make one link, the second would fail.
    const Lock lock(repository.lock(file.etag), settings.waits, [&] { return puller.tell("another process downloads it"); });
    if (!has_size(blob, file.bytes) && !has_size(named, file.bytes)) {
      Download wanted;
      wanted.url = concat(settings.endpoint, "/", repository.repository, "/resolve/", commit, "/", url_path(file.path));
      wanted.label = file.path;
      wanted.incomplete = repository.incomplete(file.etag);
      wanted.bytes = file.bytes;
      wanted.sha256 = file.sha256;
      wanted.with_token = !settings.token.empty();
      wanted.most_bytes = settings.most_bytes;
      wanted.moved = [&](std::uint64_t done, std::uint64_t) { puller.moved(done); };
      download(wanted, puller.http, puller.patience);
      rename_into_place(wanted.incomplete, blob);
    }
    if (has_size(blob, file.bytes)) point_to_blob(repository, commit, file.path, file.etag);
  }
  puller.moved(file.bytes);
}

std::string pull_from_hub(const ModelName& name, const std::string& sha256, const Settings& settings) {
  Puller puller(settings);
  const RemoteRepository remote = read_remote(settings.endpoint, name, !settings.token.empty(), puller.http, puller.patience);
  std::vector<std::string> paths;
  for (const RemoteFile& file : remote.files) paths.push_back(file.path);
  const std::vector<Variant> variants = variants_of(paths);
  if (variants.empty() && remote.refused > 0)
    throw Error(QUERN_NOT_FOUND,
                concat(name.text, ": there is no whole GGUF model among the ", counted(remote.files.size(), "file"), " of ",
                       name.repository, " that may be taken; the hub lists ", remote.refused, " more whose name or sum is refused"));
  const Variant& chosen = choose_variant(variants, name);
  if (!sha256.empty() && (chosen.files.size() != 1 || remote.files[chosen.files[0]].sha256 != sha256)) {
    throw Error(QUERN_BAD_MODEL, concat(name.text, ": ", chosen.first, " has the SHA-256 ", remote.files[chosen.files[0]].sha256, " and ",
                                        sha256, " was asked for; nothing was downloaded"));
  }
  std::uint64_t total = 0;
  for (const std::size_t at : chosen.files) total += remote.files[at].bytes;
  puller.expect(total);
  const RepositoryFolder repository{settings.cache, name.repository};
  for (const std::size_t at : chosen.files) pull_blob(repository, remote.commit, remote.files[at], settings, puller);
  const std::string revision = name.revision.empty() ? "main" : name.revision;
  if (revision != remote.commit && !remote.commit.starts_with(revision)) write_small(repository.ref(revision), remote.commit);
  return (repository.snapshot(remote.commit) / chosen.first).string();
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
  rename_into_place(wanted.incomplete, folder / file.name);
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
