// Writes a file aside and renames it.
#include "quern/base/files.hpp"

#include "target.hpp"
#include "write_all.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

namespace quern::base {
namespace {

constexpr std::string_view part_begin = ".quern-", part_end = ".part";
constexpr std::size_t part_length = part_begin.size() + 16 + part_end.size();
constexpr int most_names_read = 4096;  // of a folder, when looking for what killed writers left
constexpr int most_tries = 100;

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    number = static_cast<std::uint64_t>(::getpid()) << 40 ^ static_cast<std::uint64_t>(now.tv_sec) << 30 ^
             static_cast<std::uint64_t>(now.tv_nsec);
  }
  return number;
}

/// FNV-1a: equal names have equal parts, so that a second writer finds the first one's.
std::uint64_t number_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

void set_part_name(char (&name)[32], std::uint64_t number) noexcept {
  std::snprintf(name, sizeof(name), "%s%016lx%s", part_begin.data(), static_cast<unsigned long>(number), part_end.data());
}

bool is_part_name(std::string_view name) noexcept {
  return name.size() == part_length && name.starts_with(part_begin) && name.ends_with(part_end) &&
         name.find_first_not_of("0123456789abcdef", part_begin.size()) == part_length - part_end.size();
}

/// Whether the name still is that of the open file: a writer may have committed it since, and another begun a part of the same name.
bool is_at(int folder, const char* name, int file) noexcept {
  struct stat named {
  }, open{};
  return ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(file, &open) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

/// Removes the parts of killed writers: files of this user that no live writer has locked.
void remove_left_parts(int folder) noexcept {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::fdopendir(again), &::closedir);
  if (!open) {
    ::close(again);
    return;
  }
  int read = 0;
  while (const dirent* entry = read++ < most_names_read ? ::readdir(open.get()) : nullptr) {
    struct stat info {};
    if (!is_part_name(entry->d_name) || ::fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != ::geteuid())
      continue;
    const Descriptor left(::openat(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (left.get() >= 0 && ::flock(left.get(), LOCK_EX | LOCK_NB) == 0 && is_at(folder, entry->d_name, left.get()))
      ::unlinkat(folder, entry->d_name, 0);
  }
}

int open_folder(const std::string& folder) noexcept {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder in which files may be made, and which may not be listed: nothing to sync or to look through
  // then.
  return fd < 0 && errno == EACCES ? ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}

FileProblem check_target(int folder, const std::string& path, const std::string& name, AtTargetLink links, bool& is_null) {
  struct stat info {};
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return {};
    return file_problem(path, "written", errno);
  }
  is_null = is_null_device(info);
  if (S_ISREG(info.st_mode) || is_null || (S_ISLNK(info.st_mode) && links == AtTargetLink::replace)) return {};
  return not_writable_kind(path, info.st_mode);
}

}  // namespace

FileProblem split_path(const std::string& path, SplitPath& out) {
  if (path.empty()) return {FileFault::not_found, ENOENT, "the path of a file to write is empty"};
  if (path.find('\0') != std::string::npos)
    return {FileFault::not_found, ENOENT, std::string(path.c_str()) + ": the path holds a zero byte"};
  const std::size_t slash = path.rfind('/');
  out.folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  out.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (out.name.empty() || out.name == "." || out.name == "..") return not_writable_kind(path, S_IFDIR);
  return {};
}

FileProblem not_writable_kind(const std::string& path, mode_t mode) {
  if (S_ISLNK(mode)) return {FileFault::wrong_kind, 0, path + ": is a link, and links are not written through; name the file itself"};
  return {FileFault::wrong_kind, 0, path + ": is " + kind_of_file(mode) + ", and only a file can be written there"};
}

FileProblem cannot_write(const std::string& path, const SplitPath& split, int error) {
  if (error != ENOENT && error != ENOTDIR) return file_problem(path, "written", error);
  return {FileFault::not_found, error, path + ": cannot be written: there is no folder '" + split.folder + "'"};
}

bool is_null_device(const struct stat& info) noexcept { return S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3); }

FileProblem NewFile::create(const std::string& path, NewFile& out, AtTargetLink links, Writers writers) {
  SplitPath split;
  if (FileProblem problem = split_path(path, split)) return problem;
  NewFile made;
  made.path_ = path;
  made.name_ = split.name;
  made.folder_ = Descriptor(open_folder(split.folder));
  const int folder = made.folder_.get();
  if (folder < 0) return cannot_write(path, split, errno);
  bool is_null = false;
  if (FileProblem problem = check_target(folder, path, split.name, links, is_null)) return problem;
  if (is_null) {
    made.file_ = Descriptor(::openat(folder, split.name.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW));
    if (made.file_.get() < 0) return file_problem(path, "written", errno);
    out = std::move(made);
    return {};
  }
  remove_left_parts(folder);
  for (int tries = 0; tries < most_tries; ++tries) {
    char part[sizeof(made.part_)];
    set_part_name(part, writers == Writers::one ? number_of(split.name) : random_number());
    Descriptor file(::openat(folder, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0 && errno == EEXIST && writers == Writers::one)  // not a left one: those are gone
      return {FileFault::busy, EEXIST, path + ": another process is writing it"};
    if (file.get() < 0 && (errno == EEXIST || errno == EINTR)) continue;
    if (file.get() < 0) return file_problem(path, "written", errno);
    made.file_ = std::move(file);
    // Another writer may have taken it for a left one before the lock: it has the lock then until it has removed it.
    while (::flock(made.file_.get(), LOCK_EX) != 0 && errno == EINTR) {}
    struct stat own {};
    if (::fstat(made.file_.get(), &own) == 0 && own.st_nlink == 0) continue;
    std::memcpy(made.part_, part, sizeof(part));
    out = std::move(made);
    return {};
  }
  return {FileFault::failed, EEXIST, path + ": cannot be written: no name beside it is free"};
}

NewFile::NewFile(NewFile&& other) noexcept { *this = std::move(other); }

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(name_, other.name_);
  std::swap(folder_, other.folder_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  std::swap(part_, other.part_);
  return *this;
}

NewFile::~NewFile() { discard(); }

void NewFile::discard() noexcept {
  if (part_[0] != '\0') ::unlinkat(folder_.get(), part_, 0);
  part_[0] = '\0';
}

FileProblem NewFile::append(std::span<const std::byte> bytes) {
  if (const int error = part_[0] == '\0' ? write_all(file_.get(), bytes) : write_all_at(file_.get(), size_, bytes); error != 0)
    return file_problem(path_, "written", error);
  size_ += bytes.size();
  return {};
}

FileProblem NewFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (part_[0] == '\0') return {};  // the null device
  if (const int error = write_all_at(file_.get(), offset, bytes); error != 0) return file_problem(path_, "written", error);
  return {};
}

FileProblem NewFile::reserve(std::uint64_t bytes) {
  if (part_[0] == '\0') return {};
  if (const int error = take_room(file_.get(), bytes); error != 0 && error != EOPNOTSUPP) return file_problem(path_, "written", error);
  return {};
}

FileProblem NewFile::commit() {
  if (part_[0] == '\0') return {};
  int error = sync(file_.get());
  if (error == 0 && ::renameat(folder_.get(), part_, folder_.get(), name_.c_str()) != 0) error = errno;
  if (error != 0) {
    discard();
    return file_problem(path_, "written", error);
  }
  part_[0] = '\0';
  error = sync(folder_.get());
  if (error != 0 && error != EBADF) return file_problem(path_, "kept", error);  // EBADF: a folder that may not be read
  return {};
}

FileProblem move_file(const std::string& from, const std::string& to) {
  SplitPath split;
  if (FileProblem problem = split_path(to, split)) return problem;
  if (::rename(from.c_str(), to.c_str()) != 0) return file_problem(to, "made", errno);
  const Descriptor folder(open_folder(split.folder));
  const int error = folder.get() < 0 ? errno : sync(folder.get());
  if (error != 0 && error != EBADF) return file_problem(to, "kept", error);
  return {};
}

FileProblem write_file(const std::string& path, std::span<const std::byte> bytes, AtTargetLink links) {
  NewFile file;
  if (FileProblem problem = NewFile::create(path, file, links)) return problem;
  if (FileProblem problem = file.append(bytes)) return problem;
  return file.commit();
}

FileProblem write_file(const std::string& path, std::string_view text, AtTargetLink links) {
  return write_file(path, std::as_bytes(std::span(text)), links);
}

}  // namespace quern::base
