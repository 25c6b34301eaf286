// See fetch.hpp.
#include "fetch.hpp"

#include "download.hpp"
#include "files.hpp"
#include "git_hash.hpp"
#include "patience.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/file_error.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace quern::hub {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t most_at_once = 4;
constexpr std::chrono::milliseconds watch_interval{50};

bool has_size(const fs::path& path, std::uint64_t bytes) {
  std::error_code missing;
  return fs::file_size(path, missing) == bytes && !missing;
}

bool is_here(const RepositoryFolder& repository, const std::string& commit, const RemoteFile& file) {
  return has_size(repository.blob(file.etag), file.bytes) || has_size(repository.snapshot(commit) / file.path, file.bytes);
}

/// What the threads of a pull share: which file is next, how far each is, and whether to go on.
class Board {
 public:
  Board(const std::vector<RemoteFile>& files, Progress state) : files_(files), done_(files.size()), state_(std::move(state)) {}

  /// The next file; null at the end, or where a thread failed or the caller cancelled.
  const RemoteFile* next() {
    const std::lock_guard lock(mutex_);
    return stopped_ || next_ == files_.size() ? nullptr : &files_[next_++];
  }

  bool tell(const RemoteFile& file, const std::string& waiting) {
    const std::lock_guard lock(mutex_);
    if (!waiting.empty()) {
      state_.file = file.path;
      state_.waiting = waiting;
    }
    return !stopped_;
  }

  /// Throws Error(QUERN_CANCELLED) where the pull stops.
  void moved(const RemoteFile& file, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw Error(QUERN_CANCELLED, "cancelled");
    done_[static_cast<std::size_t>(&file - files_.data())] = bytes;
    state_.file = file.path;
    state_.waiting.clear();
  }

  /// Of several failures the first counts; that the others were stopped is none.
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_ && !stopped_) failure_ = std::move(failure);
    stopped_ = true;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    ++left_;
    changed_.notify_all();
  }

  /// On the calling thread, until `threads` have left.
  void watch(std::size_t threads, Told& told) {
    std::unique_lock lock(mutex_);
    bool cancelled = false;
    while (true) {
      const bool all_left = changed_.wait_for(lock, watch_interval, [&] { return left_ == threads; });
      told.state = state_;
      for (const std::uint64_t bytes : done_) told.state.done += bytes;
      if (!cancelled && !failure_) {
        lock.unlock();
        cancelled = !told.tell();
        lock.lock();
        stopped_ = stopped_ || cancelled;
      }
      if (all_left) break;
    }
    if (cancelled) throw Error(QUERN_CANCELLED, "cancelled");
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::vector<RemoteFile>& files_;
  std::vector<std::uint64_t> done_;
  Progress state_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, left_ = 0;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

/// A small file has no other sum in the hub's list.
void check_git_hash(const RemoteFile& file, const fs::path& path) {
  if (!file.sha256.empty()) return;
  const std::string hash = git_hash_of_file(path.string());
  if (hash == file.etag) return;
  std::error_code ignored;
  fs::remove(path, ignored);
  throw Error(QUERN_BAD_MODEL, concat(file.path, ": the Git hash is ", hash, " and should be ", file.etag,
                                      "; the download was removed; try again, and if it stays so, do not trust the source"));
}

/// One connection, and its patience.
class Worker {
 public:
  Worker(const RepositoryFolder& repository, const std::string& commit, const Settings& settings, Board& board)
      : repository_(repository),
        commit_(commit),
        settings_(settings),
        board_(board),
        patience_(settings.tries, [this](const std::string& waiting) { return board_.tell(*file_, waiting); }),
        http_(http_options(settings, [this] { return board_.tell(*file_, {}); })) {}

  void run() {
    for (file_ = board_.next(); file_ != nullptr; file_ = board_.next()) fetch(*file_);
  }

 private:
  void fetch(const RemoteFile& file) {
    const fs::path blob = repository_.blob(file.etag), named = repository_.snapshot(commit_) / file.path;
    if (!has_size(named, file.bytes)) {
      // The name is made under the lock too: of two pulls that make one link, the second would fail.
      const Lock lock(repository_.lock(file.etag), settings_.waits, [&] { return board_.tell(file, "another process downloads it"); });
      if (!is_here(repository_, commit_, file)) {
        Download wanted;
        wanted.url = concat(settings_.endpoint, "/", repository_.repository, "/resolve/", commit_, "/", url_path(file.path));
        wanted.label = file.path;
        wanted.incomplete = repository_.incomplete(file.etag);
        wanted.bytes = file.bytes;
        wanted.sha256 = file.sha256;
        wanted.with_token = !settings_.token.empty();
        wanted.most_bytes = settings_.most_bytes;
        wanted.moved = [&](std::uint64_t done, std::uint64_t) { board_.moved(file, done); };
        download(wanted, http_, patience_);
        check_git_hash(file, wanted.incomplete);
        check_written(base::move_file(wanted.incomplete.string(), blob.string()));
      }
      if (has_size(blob, file.bytes)) point_to_blob(repository_, commit_, file.path, file.etag);
    }
    board_.moved(file, file.bytes);
  }

  const RepositoryFolder& repository_;
  const std::string& commit_;
  const Settings& settings_;
  Board& board_;
  const RemoteFile* file_ = nullptr;
  Patience patience_;
  Http http_;
};

}  // namespace

Http::Options http_options(const Settings& settings, std::function<bool()> go_on) {
  return {settings.token, settings.token.empty() ? "" : origin_of(settings.endpoint), settings.timeout, settings.least_rate,
          std::move(go_on)};
}

void fetch_all(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files, Told& told) {
  Board board(files, told.state);
  const auto work = [&] {
    try {
      Worker(repository, commit, told.settings, board).run();
    } catch (...) { board.fail(std::current_exception()); }
    board.leave();
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < std::min(files.size(), most_at_once)) threads.emplace_back(work);
  } catch (const std::system_error& error) {
    if (threads.empty()) throw Error(QUERN_IO, concat("no thread can be started for the download: ", error.code().message()));
  }
  board.watch(threads.size(), told);
}

void require_room_for(const RepositoryFolder& repository, const std::string& commit, const std::vector<RemoteFile>& files,
                      const std::string& what) {
  const fs::path blobs = repository.folder() / "blobs";
  make_folders(blobs);
  std::uint64_t needed = 0;
  for (const RemoteFile& file : files) {
    std::error_code absent;
    const std::uint64_t grown = fs::file_size(repository.incomplete(file.etag), absent);
    if (!is_here(repository, commit, file)) needed += file.bytes - (absent ? 0 : std::min(grown, file.bytes));
  }
  struct statvfs info {};
  if (::statvfs(blobs.c_str(), &info) != 0) return;  // each file asks again before it is written
  const std::uint64_t room = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (room >= needed) return;
  const auto [more, there] = byte_words_apart(needed, room);
  throw Error(QUERN_IO, concat(what, " needs ", more, " more, and ", blobs.string(), " has room for ", there,
                               "; nothing was downloaded; free some, or choose another folder with HF_HUB_CACHE"));
}

}  // namespace quern::hub
