// Files: how all of Quern opens, reads and writes them. base/README.md says what happens to links, pipes,
// folders and devices.
//
// Nothing here waits for a file that is no regular one, follows a link to a place that it then writes, or
// leaves a file half written. A failure is a FileProblem, not an exception; where memory runs out,
// std::bad_alloc is thrown. Destructors allocate nothing.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::base {

enum class FileFault : std::uint8_t {
  none,
  not_found,    // no such file, or a link to nowhere
  not_allowed,  // the system's permissions
  wrong_kind,   // a folder, a pipe, a socket, a device, a link where none may be
  too_large,    // more bytes than the reader takes
  no_room,      // a full disk, a quota, the process's limit
  busy,         // another process is writing it
  failed,       // anything else that the system says, such as an I/O error
};

/// Why something did not happen. True if it did not.
struct FileProblem {
  FileFault fault = FileFault::none;
  int error = 0;     // errno, or 0 where the system reported nothing
  std::string text;  // with the file's name: "a/b: cannot be read: Input/output error"
  explicit operator bool() const noexcept { return fault != FileFault::none; }
};

/// "PATH: cannot be ACTION: REASON", from an errno. A link to nowhere and a link to itself are named with
/// their targets.
FileProblem file_problem(const std::string& path, const char* action, int error);

/// What a path names that is no regular file: "a folder", "a pipe", "a socket", "a device", "a link".
const char* kind_of_file(mode_t mode) noexcept;

/// Where a link leads in the end, if nothing is there (or it leads back to itself); empty if the path is no
/// such link.
std::string dangling_target(const std::string& path);

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// Reading.

enum class AtLink : std::uint8_t { follow, refuse };
enum class Pipes : std::uint8_t { refuse, read };

struct ReadRules {
  std::uint64_t most = 16 << 20;  // bytes; a longer file is FileFault::too_large
  AtLink links = AtLink::follow;  // of the last part of the path
  Pipes pipes = Pipes::refuse;    // with read, pipes and terminals too; it then waits for their writer
};

struct OpenedFile {
  Descriptor descriptor;
  struct stat status {};
};

/// Opens a regular file for reading.
[[nodiscard]] FileProblem open_file(const std::string& path, OpenedFile& out, AtLink links = AtLink::follow);

/// All bytes of an opened file. `out` is empty if there is a problem.
[[nodiscard]] FileProblem read_opened(const OpenedFile& file, const std::string& name, std::string& out, std::uint64_t most);

/// All bytes of a file. `out` is empty if there is a problem.
[[nodiscard]] FileProblem read_file(const std::string& path, std::string& out, const ReadRules& rules = {});
[[nodiscard]] FileProblem read_file(const std::string& path, std::vector<std::byte>& out, const ReadRules& rules = {});

/// The first bytes of a file, `most` at most; the rest does not matter.
[[nodiscard]] FileProblem read_head(const std::string& path, std::string& out, std::size_t most);
[[nodiscard]] FileProblem read_head(const std::string& path, std::vector<std::byte>& out, std::size_t most);

/// All bytes that come from an open descriptor, such as standard input; `name` is for the text of a problem.
[[nodiscard]] FileProblem read_descriptor(int descriptor, const std::string& name, std::string& out, std::uint64_t most);

/// Fills `to` from an offset. A file that ends before is FileFault::failed.
[[nodiscard]] FileProblem read_at(int descriptor, const std::string& name, std::uint64_t offset, std::span<std::byte> to);

// Writing.

enum class AtTargetLink : std::uint8_t { refuse, replace };
/// Whether several processes may write one file at the same time (the last rename wins), or a second one is told that it is busy.
enum class Writers : std::uint8_t { many, one };

/// A file that is written aside and takes its name, whole, at commit(). Without commit() nothing stays.
class NewFile {
 public:
  /// Says at once what is wrong with the target.
  [[nodiscard]] static FileProblem create(const std::string& path, NewFile& out, AtTargetLink links = AtTargetLink::refuse,
                                          Writers writers = Writers::many);

  NewFile() noexcept = default;
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();

  [[nodiscard]] FileProblem append(std::span<const std::byte> bytes);
  [[nodiscard]] FileProblem append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  [[nodiscard]] FileProblem write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Takes the room on the disk, so that a full disk is found before anything is written. No problem where
  /// the file system cannot.
  [[nodiscard]] FileProblem reserve(std::uint64_t bytes);
  /// Syncs and renames. If there is a problem before the rename, the target is as it was.
  [[nodiscard]] FileProblem commit();
  /// -1 where nothing is open.
  int descriptor() const noexcept { return file_.get(); }

 private:
  void discard() noexcept;

  std::string path_, name_;  // as given, and its last part
  Descriptor folder_, file_;
  std::uint64_t size_ = 0;
  char part_[32] = {};  // the name beside it; empty when there is none to remove
};

/// Writes the whole file, or leaves what was there.
[[nodiscard]] FileProblem write_file(const std::string& path, std::string_view text, AtTargetLink links = AtTargetLink::refuse);
[[nodiscard]] FileProblem write_file(const std::string& path, std::span<const std::byte> bytes, AtTargetLink links = AtTargetLink::refuse);

/// A file that grows in place: a journal, a download, a lock. What was written before a process was killed
/// stays.
class GrowingFile {
 public:
  enum class Begin : std::uint8_t { keep, empty };

  /// Makes the file if it is not there. May be read, too.
  [[nodiscard]] static FileProblem open(const std::string& path, Begin begin, GrowingFile& out);

  [[nodiscard]] FileProblem append(std::span<const std::byte> bytes);
  [[nodiscard]] FileProblem append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// Cuts it to that many bytes.
  [[nodiscard]] FileProblem truncate(std::uint64_t bytes);
  /// Makes it that long, with zeros and with room on the disk.
  [[nodiscard]] FileProblem allocate(std::uint64_t bytes);
  [[nodiscard]] FileProblem sync();
  int descriptor() const noexcept { return file_.get(); }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  Descriptor file_;
};

/// Gives a whole file its name, and syncs the folder: what was there is replaced, links too. Both names lie on one file system.
[[nodiscard]] FileProblem move_file(const std::string& from, const std::string& to);

// Folders.

/// Makes the folder and those above it. No problem if it is there.
[[nodiscard]] FileProblem make_folders(const std::string& folder);

}  // namespace quern::base
