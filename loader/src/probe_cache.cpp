// Keeps probe results between processes.
#include "probe_cache.hpp"

#include "exchange.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

#include <unistd.h>

#include <cerrno>
#include <iomanip>
#include <new>
#include <sstream>

namespace quern::loader {
namespace {

using Wall = std::chrono::system_clock;

constexpr std::uint64_t max_file = 1 << 20;
constexpr std::int64_t doubtful_seconds = 600;

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

std::int64_t now() { return std::chrono::duration_cast<std::chrono::seconds>(Wall::now().time_since_epoch()).count(); }

bool is_doubtful(const std::string& code) {
  for (const char* c :
       {code::load_crashed, code::load_hung, code::negotiate_crashed, code::negotiate_hung, code::probe_crashed, code::probe_hung})
    if (code == c) return true;
  return false;
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << number;
  return text.str();
}

/// Of the key and of the result as this loader writes it, however the file is laid out.
std::string sum_of(const std::string& key, const Examination& result) {
  JsonWriter json(JsonWriter::Style::one_line);
  write_json(json, result);
  return hexadecimal(fnv1a(concat(key, "\n", json.take())));
}

}  // namespace

ProbeCache::ProbeCache(std::string directory) : directory_(std::move(directory)) {
  if (!directory_.empty()) directory_ += "/probe";
}

std::string ProbeCache::file(const std::string& slot) const { return concat(directory_, '/', hexadecimal(fnv1a(slot)), ".json"); }

std::string ProbeCache::fault_file(const std::string& path) const {
  if (directory_.empty() || base::make_folders(directory_)) return {};
  return concat(directory_, '/', hexadecimal(fnv1a(path)), ".fault");
}

std::optional<std::string> read_kept(const std::string& name, std::string& fault) {
  base::OpenedFile open;
  std::string text;
  base::FileProblem problem = base::open_file(name, open, base::AtLink::refuse);
  if (!problem && ((open.status.st_uid != ::geteuid() && open.status.st_uid != 0) || (open.status.st_mode & S_IWOTH)))
    return fault = concat(name, ": another user may have written it"), std::nullopt;
  if (!problem) problem = base::read_opened(open, name, text, max_file);
  if (!problem) return text;
  if (problem.error != ENOENT) fault = problem.text;
  return std::nullopt;
}

std::optional<Examination> ProbeCache::find(const std::string& slot, const std::string& key, Doubtful doubtful, std::string& fault) const {
  if (directory_.empty() || key.empty()) return std::nullopt;
  const std::string name = file(slot);
  const std::optional<std::string> text = read_kept(name, fault);
  if (!text) return std::nullopt;
  const Json value = Json::parse(*text).value_or(Json());
  const Json *kept_key = value.find("key"), *kept = value.find("result"), *time = value.find("time");
  if (kept_key == nullptr || kept == nullptr) return fault = concat(name, ": damaged: not a kept probe result"), std::nullopt;
  if (kept_key->text() == nullptr || *kept_key->text() != key) return std::nullopt;
  try {
    Examination result = examination_from(*kept);
    const Json* sum = value.find("sum");
    if (sum == nullptr || sum->text() == nullptr || *sum->text() != sum_of(key, result))
      return fault = concat(name, ": damaged: its checksum is wrong"), std::nullopt;
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

void ProbeCache::forget(const std::string& slot) const noexcept {
  try {
    if (!directory_.empty()) ::unlink(file(slot).c_str());
  } catch (const std::bad_alloc&) {  // it stays, and is found wrong again
  }
}

void ProbeCache::keep(const std::string& slot, const std::string& key, const Examination& result, std::string& fault) const {
  if (directory_.empty() || key.empty() || result.verdict.code == code::no_helper) return;
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.member("key", key);
  json.member("time", now());
  json.member("sum", sum_of(key, result));
  json.key("result");
  write_json(json, result);
  json.end_object();
  base::FileProblem problem = base::make_folders(directory_);
  if (!problem) problem = base::write_file(file(slot), json.take(), base::AtTargetLink::replace);
  if (problem) fault = std::move(problem.text);
}

}  // namespace quern::loader
