// Keeps probe results between processes.
#include "probe_cache.hpp"

#include "exchange.hpp"
#include "quern/graph/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iomanip>

namespace quern::loader {
namespace {

using Wall = std::chrono::system_clock;

constexpr off_t max_file = 1 << 20;
constexpr std::int64_t doubtful_seconds = 600;

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(Wall::now().time_since_epoch()).count();
}

bool is_doubtful(const std::string& code) {
  for (const char* c : {code::load_crashed, code::load_hung, code::negotiate_crashed, code::negotiate_hung,
                        code::probe_crashed, code::probe_hung})
    if (code == c) return true;
  return false;
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

ProbeCache::ProbeCache(std::string directory) : directory_(std::move(directory)) {
  if (!directory_.empty()) directory_ += "/probe";
}

std::string ProbeCache::file(const std::string& slot) const {
  std::ostringstream name;
  name << directory_ << '/' << std::hex << std::setw(16) << std::setfill('0') << fnv1a(slot) << ".json";
  return name.str();
}

std::optional<Examination> ProbeCache::find(const std::string& slot, const std::string& key, Doubtful doubtful,
                                            std::string& fault) const {
  if (directory_.empty() || key.empty()) return std::nullopt;
  const std::string name = file(slot);
  const File open{::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (open.fd < 0) {
    if (errno != ENOENT) fault = concat(name, ": cannot be read: ", std::strerror(errno));
    return std::nullopt;
  }
  struct stat info {};
  if (::fstat(open.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > max_file)
    return fault = concat(name, ": not a file of at most ", max_file, " bytes"), std::nullopt;
  if ((info.st_uid != ::geteuid() && info.st_uid != 0) || (info.st_mode & S_IWOTH))
    return fault = concat(name, ": another user may have written it"), std::nullopt;
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(open.fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  const Json value = Json::parse(std::string_view(text).substr(0, have)).value_or(Json());
  const Json *kept_key = value.find("key"), *kept = value.find("result"), *time = value.find("time");
  if (kept_key == nullptr || kept == nullptr) return fault = concat(name, ": damaged: not a kept probe result"), std::nullopt;
  if (kept_key->text() == nullptr || *kept_key->text() != key) return std::nullopt;
  try {
    Examination result = examination_from(*kept);
    if (is_doubtful(result.verdict.code)) {
      if (doubtful == Doubtful::never) return std::nullopt;
      const std::optional<std::int64_t> at = time == nullptr ? std::nullopt : time->integer();
      if (!at || *at < 0 || *at > now() || now() - *at > doubtful_seconds) return std::nullopt;
    }
    return result;
  } catch (const Error& wrong) {
    fault = concat(name, ": damaged: ", wrong.what());
    return std::nullopt;
  }
}

void ProbeCache::keep(const std::string& slot, const std::string& key, const Examination& result,
                      std::string& fault) const {
  if (directory_.empty() || key.empty() || result.verdict.code == code::no_helper) return;
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error) {
    fault = concat(directory_, ": cannot be made: ", error.message());
    return;
  }
  std::string name = file(slot) + ".XXXXXX";
  const File open{::mkostemp(name.data(), O_CLOEXEC)};  // mode 0600
  if (open.fd < 0) {
    fault = concat(directory_, ": cannot be written to: ", std::strerror(errno));
    return;
  }
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.member("key", key);
  json.member("time", now());
  json.key("result");
  write_json(json, result);
  json.end_object();
  const std::string text = json.take();
  std::size_t put = 0;
  while (put < text.size()) {
    const ssize_t wrote = ::write(open.fd, text.data() + put, text.size() - put);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    put += static_cast<std::size_t>(wrote);
  }
  if (put != text.size() || ::rename(name.c_str(), file(slot).c_str()) != 0) {
    fault = concat(file(slot), ": cannot be written: ", std::strerror(errno));
    ::unlink(name.c_str());
  }
}

}  // namespace quern::loader
