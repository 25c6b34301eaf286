// See activity.hpp.
#include "activity.hpp"

#include "quern/base/files.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

namespace quern::cli {
namespace {

constexpr std::uint64_t file_magic = 0x31746361'6e726571;  // "qernact1"
constexpr std::string_view suffix = ".activity";

struct File {
  std::uint64_t magic;
  std::uint64_t tokens;
  char model[496];  // ends with a zero
};
static_assert(sizeof(File) == 512);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);  // two processes use it

bool is_own_folder(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == getuid() && (found.st_mode & 022) == 0;
}

}  // namespace

std::optional<std::string> activity_folder(bool make) {
  const char* runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  const std::string path = runtime != nullptr && *runtime == '/' ? std::string(runtime) + "/quern"
                                                                 : "/tmp/quern-" + std::to_string(getuid());
  if (make) mkdir(path.c_str(), 0700);  // where it is there already, it must be the user's own all the same
  if (!is_own_folder(path)) return std::nullopt;
  return path;
}

ActivityWriter::ActivityWriter(const std::string& model) {
  const auto folder = activity_folder(true);
  if (!folder) return;
  const std::string path = *folder + "/" + std::to_string(getpid()) + std::string(suffix);
  unlink(path.c_str());  // of a dead process that had this id
  base::GrowingFile file;
  if (base::GrowingFile::open(path, base::GrowingFile::Begin::empty, file)) return;
  if (!file.allocate(sizeof(File))) {
    void* memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
    if (memory != MAP_FAILED) memory_ = memory;
  }
  if (memory_ == nullptr) {
    unlink(path.c_str());
    return;
  }
  path_ = path;
  File& f = *static_cast<File*>(memory_);
  const std::size_t length = std::min(model.size(), sizeof f.model - 1);
  std::memcpy(f.model, model.data(), length);
  std::atomic_ref(f.magic).store(file_magic, std::memory_order_release);
}

ActivityWriter::~ActivityWriter() {
  if (memory_ == nullptr) return;
  munmap(memory_, sizeof(File));
  unlink(path_.c_str());
}

void ActivityWriter::add_token() noexcept {
  if (memory_ != nullptr) std::atomic_ref(static_cast<File*>(memory_)->tokens).fetch_add(1, std::memory_order_relaxed);
}

std::vector<Activity> read_activities() {
  std::vector<Activity> found;
  const auto folder = activity_folder(false);
  if (!folder) return found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(*folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(suffix)) continue;
    Activity activity;
    const char* end = name.data() + name.size() - suffix.size();
    if (const auto number = std::from_chars(name.data(), end, activity.pid);
        number.ec != std::errc() || number.ptr != end || activity.pid <= 0)
      continue;
    if (kill(activity.pid, 0) != 0 && errno == ESRCH) {
      unlink(entry.path().c_str());
      continue;
    }
    base::OpenedFile file;
    File f{};
    if (base::open_file(entry.path().string(), file, base::AtLink::refuse) ||
        base::read_at(file.descriptor.get(), name, 0, std::as_writable_bytes(std::span(&f, 1))) || f.magic != file_magic)
      continue;
    f.model[sizeof f.model - 1] = '\0';
    activity.model = f.model;
    activity.tokens = f.tokens;
    found.push_back(std::move(activity));
  }
  std::ranges::sort(found, {}, &Activity::pid);
  return found;
}

}  // namespace quern::cli
