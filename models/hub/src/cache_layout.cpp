// See cache_layout.hpp.
#include "cache_layout.hpp"

#include "files.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <unistd.h>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "models--";

std::string folder_name(const std::string& repository) {
  std::string name(prefix);
  for (const char c : repository) name += c == '/' ? std::string("--") : std::string(1, c);
  return name;
}

fs::file_time_type time_of(const fs::path& path) {
  std::error_code failed;
  const auto time = fs::last_write_time(path, failed);
  return failed ? fs::file_time_type::min() : time;
}

}  // namespace

fs::path RepositoryFolder::folder() const { return cache / folder_name(repository); }

fs::path RepositoryFolder::lock(const std::string& etag) const { return cache / ".locks" / folder_name(repository) / (etag + ".lock"); }

std::optional<std::string> RepositoryFolder::commit_of(const std::string& revision) const {
  if (const auto text = read_small(ref(revision))) {
    const std::string commit = text->substr(0, text->find_last_not_of(" \n\r") + 1);
    if (is_hex(commit, 40)) return commit;
  }
  if (revision.size() < 7 || revision.find_first_not_of("0123456789abcdef") != revision.npos) return std::nullopt;
  std::optional<std::string> found;
  for (const std::string& commit : names_in((folder() / "snapshots").string(), SIZE_MAX)) {
    if (!commit.starts_with(revision)) continue;
    if (found) return std::nullopt;
    found = commit;
  }
  return found;
}

Snapshot read_snapshot(const RepositoryFolder& repository, const std::string& commit) {
  Snapshot snapshot{repository, commit, {}, {}, {}};
  const fs::path root = repository.snapshot(commit);
  for (std::string& path : paths_below(root.string())) {
    std::error_code broken;
    if (fs::is_regular_file(root / path, broken)) {  // behind its link
      snapshot.paths.push_back(std::move(path));
    } else if (snapshot.broken.empty() && path.ends_with(".gguf")) {
      snapshot.broken = (root / path).string();
    }
  }
  snapshot.variants = variants_of(snapshot.paths);
  return snapshot;
}

std::vector<Snapshot> read_snapshots(const RepositoryFolder& repository) {
  std::vector<std::string> commits = names_in((repository.folder() / "snapshots").string(), SIZE_MAX);
  const std::string main = repository.commit_of("main").value_or("");
  std::ranges::stable_sort(commits, [&](const std::string& a, const std::string& b) {
    if ((a == main) != (b == main)) return a == main;
    return time_of(repository.snapshot(a)) > time_of(repository.snapshot(b));
  });
  std::vector<Snapshot> snapshots;
  for (const std::string& commit : commits) snapshots.push_back(read_snapshot(repository, commit));
  return snapshots;
}

std::vector<RepositoryFolder> read_repositories(const fs::path& cache) {
  std::vector<RepositoryFolder> found;
  for (const std::string& name : names_in(cache.string(), SIZE_MAX)) {
    const std::size_t separator = name.find("--", prefix.size());
    if (!name.starts_with(prefix) || separator == name.npos) continue;
    found.push_back({cache, name.substr(prefix.size(), separator - prefix.size()) + "/" + name.substr(separator + 2)});
  }
  return found;
}

void point_to_blob(const RepositoryFolder& repository, const std::string& commit, const std::string& path, const std::string& etag) {
  const fs::path link = repository.snapshot(commit) / path;
  make_folders(link.parent_path());
  const fs::path target = fs::path(repository.blob(etag)).lexically_relative(link.parent_path());
  std::error_code failed;
  if (fs::read_symlink(link, failed) == target) return;
  fs::remove(link, failed);
  fs::create_symlink(target, link, failed);
  if (failed == std::errc::operation_not_permitted || failed == std::errc::operation_not_supported ||
      failed == std::errc::function_not_supported) {
    fs::rename(repository.blob(etag), link, failed);
  }
  if (failed) throw Error(QUERN_IO, concat(link.string(), ": cannot be made: ", failed.message()));
}

}  // namespace quern::hub
