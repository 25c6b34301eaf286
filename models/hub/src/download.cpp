// See download.hpp.
#include "download.hpp"

#include "files.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/sha256.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace quern::hub {
namespace {

// What a body without a stated size leaves free on the disk.
constexpr std::uint64_t reserved_bytes = 64 << 20;

// Bytes that count as progress: a server that gives a few and ends, again and again, is left like one that gives none.
constexpr std::uint64_t progress_bytes = 64 << 10;

/// The growing file with the sum of what it holds.
class Growing {
 public:
  explicit Growing(const std::filesystem::path& path) : path_(path) {
    make_folders(path.parent_path());
    check(base::GrowingFile::open(path.string(), base::GrowingFile::Begin::keep, file_));
    struct stat info {};
    if (::fstat(file_.descriptor(), &info) != 0) check(base::file_problem(path.string(), "examined", errno));
    std::vector<std::byte> buffer(1 << 18);
    for (const auto size = static_cast<std::uint64_t>(info.st_size); bytes_ < size;) {
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), size - bytes_));
      check(base::read_at(file_.descriptor(), path.string(), bytes_, piece));
      sum_.add(piece);
      bytes_ += piece.size();
    }
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  std::uint64_t bytes() const { return bytes_; }

  void clear() {
    check(file_.truncate(0));
    sum_ = {};
    bytes_ = 0;
  }

  void append(std::span<const std::byte> data) {
    check(file_.append(data));
    sum_.add(data);
    bytes_ += data.size();
  }

  /// Its sum; after that nothing may be appended.
  std::string finish() {
    check(file_.sync());
    return sum_.finish();
  }

  /// Bytes that the file system has free; where it does not say, all.
  std::uint64_t room() const {
    struct statvfs info {};
    return ::fstatvfs(file_.descriptor(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : UINT64_MAX;
  }

  /// Throws Error(QUERN_IO) if the file system has less room than that.
  void require_room(std::uint64_t more, const std::string& label) const {
    if (const std::uint64_t room = this->room(); room < more) {
      const auto [needed, there] = byte_words_apart(more, room);
      throw Error(QUERN_IO, concat(label, " needs ", needed, " more, and ", path_.parent_path().string(), " has room for ", there,
                                   "; free some, or choose another folder with HF_HUB_CACHE"));
    }
  }

 private:
  static void check(base::FileProblem problem) {
    if (problem.fault == base::FileFault::no_room)
      problem.text += "; free some room, or choose another folder with HF_HUB_CACHE; what has come is kept";
    check_written(problem);
  }

  std::filesystem::path path_;
  base::GrowingFile file_;
  Sha256 sum_;
  std::uint64_t bytes_ = 0;
};

void remove_quietly(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

/// Throws Error(QUERN_IO), and keeps nothing, where a body whose end nobody knows would take more than it may.
void bound_unstated(const Download& wanted, const Growing& file, std::uint64_t more) {
  const std::uint64_t bytes = file.bytes() + more, room = file.room();
  if (bytes <= wanted.most_bytes && room >= more + reserved_bytes) return;
  remove_quietly(wanted.incomplete);
  if (bytes > wanted.most_bytes)
    throw Error(QUERN_IO, concat(wanted.label, ": the server states no size and sends more than the ", byte_words(wanted.most_bytes),
                                 " that a file may have; nothing was kept; QUERN_HUB_LIMIT (--hub-limit) allows more"));
  throw Error(QUERN_IO, concat(wanted.label, ": the server states no size, and after ", byte_words(file.bytes()), " ",
                               wanted.incomplete.parent_path().string(), " has room for ", byte_words(room), " more, of which ",
                               byte_words(reserved_bytes), " stay free; nothing was kept; free some room, or choose another folder"));
}

/// One answer of the server into the file. True when the file is as long as it should be. `counted`: the length up to which bytes counted as
/// progress.
bool fetch_rest(const Download& wanted, Growing& file, std::uint64_t& counted, Http& http, Patience& patience) {
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
    if (total && *total > wanted.most_bytes)
      throw Error(QUERN_IO, concat(wanted.label, " has ", byte_words_apart(*total, wanted.most_bytes).first, ", and a file may have ",
                                   byte_words_apart(*total, wanted.most_bytes).second, "; QUERN_HUB_LIMIT (--hub-limit) allows more"));
    if (total) file.require_room(*total - std::min(*total, file.bytes()), wanted.label);
  };
  const auto take = [&](const Response& response, std::span<const std::byte> piece) {
    if (first_piece) take_head(response);
    first_piece = false;
    if (total && piece.size() > *total - std::min(*total, file.bytes()))
      throw Error(QUERN_BAD_MODEL, concat(wanted.label, ": the server sends more than the ", *total, " bytes that it has"));
    if (!total) bound_unstated(wanted, file, piece.size());
    file.append(piece);
    if (file.bytes() >= counted + progress_bytes || file.bytes() == total) {
      patience.progressed();
      counted = file.bytes();
    }
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
  std::uint64_t counted = file.bytes();
  const bool whole_already = wanted.bytes && file.bytes() == *wanted.bytes && !wanted.sha256.empty();
  try {
    while (!whole_already && !patience.run([&] { return fetch_rest(wanted, file, counted, http, patience); })) {}
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
