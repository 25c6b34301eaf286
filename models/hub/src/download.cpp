// See download.hpp.
#include "download.hpp"

#include "files.hpp"

#include "quern/graph/error.hpp"
#include "quern/graph/sha256.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace quern::hub {
namespace {

/// The growing file with the sum of what it holds.
class Growing {
 public:
  explicit Growing(const std::filesystem::path& path) : path_(path) {
    make_folders(path.parent_path());
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail(errno);
    std::vector<std::byte> buffer(1 << 18);
    while (true) {
      const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        const int error = errno;
        ::close(fd_);
        fail(error);
      }
      if (got == 0) break;
      sum_.add(std::span(buffer).first(static_cast<std::size_t>(got)));
      bytes_ += static_cast<std::uint64_t>(got);
    }
  }
  ~Growing() { ::close(fd_); }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  std::uint64_t bytes() const { return bytes_; }

  void clear() {
    if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) fail(errno);
    sum_ = {};
    bytes_ = 0;
  }

  void append(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t put = ::write(fd_, data.data(), data.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail(errno);
      const auto written = data.first(static_cast<std::size_t>(put));
      sum_.add(written);
      bytes_ += written.size();
      data = data.subspan(written.size());
    }
  }

  /// Its sum; after that nothing may be appended.
  std::string finish() {
    if (::fsync(fd_) != 0) fail(errno);
    return sum_.finish();
  }

  /// Throws Error(QUERN_IO) if the file system has less room than that.
  void require_room(std::uint64_t more, const std::string& label) const {
    struct statvfs info {};
    if (::fstatvfs(fd_, &info) != 0) return;
    const std::uint64_t room = std::uint64_t{info.f_bavail} * info.f_frsize;
    if (room < more) {
      throw Error(QUERN_IO, concat(label, " needs ", more, " bytes more, and ", path_.parent_path().string(), " has room for ", room,
                                   "; free some, or choose another folder with HF_HUB_CACHE"));
    }
  }

 private:
  [[noreturn]] void fail(int error) const {
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    throw Error(QUERN_IO, concat(path_.string(), ": cannot be written: ", system_reason(error),
                                 full ? "; free some room, or choose another folder with HF_HUB_CACHE; what has come is kept" : ""));
  }

  std::filesystem::path path_;
  int fd_ = -1;
  Sha256 sum_;
  std::uint64_t bytes_ = 0;
};

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

/// One answer of the server into the file. True when the file is as long as it should be.
bool fetch_rest(const Download& wanted, Growing& file, Http& http, Patience& patience) {
  std::optional<std::uint64_t> total = wanted.bytes;
  bool first_piece = true;
  const auto take_head = [&](const Response& response) {
    if (wanted.begun) wanted.begun(response);
    if (response.from() != file.bytes()) {
      if (response.from() != 0)
        throw Error(QUERN_IO, concat(wanted.label, ": byte ", file.bytes(), " was asked for and the server sends byte ", response.from()));
      file.clear();  // it has no ranges, or the file is another one now
    }
    const auto said = response.file_bytes();
    if (total && said && *said != *total) {
      throw Error(QUERN_BAD_MODEL,
                  concat(wanted.label, " has ", *total, " bytes by the hub's list and ", *said, " by its server; nothing was kept"));
    }
    if (said) total = said;
    if (total) file.require_room(*total - std::min(*total, file.bytes()), wanted.label);
  };
  const auto take = [&](const Response& response, std::span<const std::byte> piece) {
    if (first_piece) take_head(response);
    first_piece = false;
    if (total && piece.size() > *total - std::min(*total, file.bytes()))
      throw Error(QUERN_BAD_MODEL, concat(wanted.label, ": the server sends more than the ", *total, " bytes that it has"));
    file.append(piece);
    patience.progressed();
    wanted.moved(file.bytes(), total.value_or(0));
  };
  const Response response = http.get({wanted.url, file.bytes(), wanted.if_range}, take);
  if (response.status == 416 && file.bytes() > 0) {  // ours is longer than theirs
    file.clear();
    return false;
  }
  check_status(response, wanted.label, wanted.with_token);
  if (first_piece) take_head(response);
  if (total && file.bytes() < *total)
    throw Interrupted(concat(wanted.label, ": the connection ended after ", file.bytes(), " of ", *total, " bytes"));
  return true;
}

}  // namespace

Downloaded download(const Download& wanted, Http& http, Patience& patience) {
  Growing file(wanted.incomplete);
  if (wanted.bytes && file.bytes() > *wanted.bytes) file.clear();
  const bool whole_already = wanted.bytes && file.bytes() == *wanted.bytes && !wanted.sha256.empty();
  try {
    while (!whole_already && !patience.run([&] { return fetch_rest(wanted, file, http, patience); })) {
    }
  } catch (const Error& error) {
    if (error.code() == QUERN_BAD_MODEL) remove_quietly(wanted.incomplete);
    throw;
  }
  const Downloaded done{file.bytes(), file.finish()};
  if (!wanted.sha256.empty() && done.sha256 != wanted.sha256) {
    remove_quietly(wanted.incomplete);
    throw Error(QUERN_BAD_MODEL, concat(wanted.label, ": the SHA-256 is ", done.sha256, " and should be ", wanted.sha256,
                                        "; the download was removed; try again, and if it stays so, do not trust the source"));
  }
  return done;
}

}  // namespace quern::hub
