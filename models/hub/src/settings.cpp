// hub::Settings from the variables that other clients of the hub read too.
#include "quern/base/byte_sizes.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/models/hub.hpp"

#include "files.hpp"

#include "quern/graph/error.hpp"

#include <charconv>
#include <string_view>

namespace quern::hub {
namespace {

using Get = std::function<const char*(const char*)>;

std::string value(const Get& get, const char* name) {
  const char* text = get(name);
  return text == nullptr ? std::string() : std::string(text);
}

std::string first_of(const Get& get, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string text = value(get, name); !text.empty()) return text;
  }
  return {};
}

bool is_true(const std::string& text) {
  return text == "1" || text == "ON" || text == "on" || text == "YES" || text == "yes" || text == "TRUE" || text == "true" ||
         text == "True";
}

std::uint32_t number(const Get& get, const char* name, std::uint32_t otherwise) {
  const std::string text = value(get, name);
  std::uint32_t read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (text.empty()) return otherwise;
  if (error != std::errc{} || end != text.data() + text.size() || read == 0 || read > 86400) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is ", in_quotes(text, 200), "; it takes a whole number from 1 to 86400"));
  }
  return read;
}

/// "512G" or "1.5G"; 0 for no limit.
std::uint64_t bytes(const Get& get, const char* name, std::uint64_t otherwise) {
  const std::string text = value(get, name);
  if (text.empty()) return otherwise;
  const auto read = parse_bytes(text);
  if (!read)
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is ", in_quotes(text, 200), "; it takes bytes such as 512G, or 0 for no limit"));
  return *read == 0 ? UINT64_MAX : *read;
}

/// "64K" bytes a second.
std::uint64_t rate(const Get& get, const char* name, std::uint64_t otherwise) {
  const std::string text = value(get, name);
  if (text.empty()) return otherwise;
  const auto read = parse_bytes(text);
  if (!read || *read == 0 || *read > UINT32_MAX)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(name, " is ", in_quotes(text, 200), "; it takes bytes a second above 0 and below 4G, such as 64K"));
  return *read;
}

std::string with_home(const std::string& path, const std::string& home) {
  return path == "~" || path.starts_with("~/") ? home + path.substr(1) : path;
}

}  // namespace

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

Settings settings_from_environment(const Get& get) {
  Settings settings;
  const std::string home = value(get, "HOME");
  const std::string caches = first_of(get, {"XDG_CACHE_HOME"}).empty() ? (home.empty() ? "" : home + "/.cache")
                                                                       : value(get, "XDG_CACHE_HOME");
  std::string hub_home = with_home(value(get, "HF_HOME"), home);
  if (hub_home.empty() && !caches.empty()) hub_home = caches + "/huggingface";
  settings.cache = with_home(first_of(get, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}), home);
  if (settings.cache.empty() && !hub_home.empty()) settings.cache = hub_home + "/hub";
  std::string own = value(get, "QUERN_CACHE_DIR");
  if (own.empty() && !caches.empty()) own = caches + "/quern";
  if (!own.empty()) settings.url_cache = own + "/models";
  if (const std::string endpoint = value(get, "HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = without_slash(endpoint);
  settings.token = first_of(get, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (settings.token.empty() && !is_true(value(get, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))) {
    const std::string file = with_home(value(get, "HF_TOKEN_PATH"), home);
    settings.token = read_small(file.empty() ? hub_home + "/token" : file).value_or("");
  }
  const std::size_t first = settings.token.find_first_not_of(" \t\r\n");
  settings.token = first == std::string::npos ? "" : settings.token.substr(first, settings.token.find_last_not_of(" \t\r\n") - first + 1);
  if (settings.token.find_first_of("\r\n") != std::string::npos) throw Error(QUERN_INVALID_ARGUMENT, "HF_TOKEN has more than one line");
  if (printable(settings.token) != settings.token) throw Error(QUERN_INVALID_ARGUMENT, "HF_TOKEN has control characters; a token has none");
  settings.offline = is_true(first_of(get, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.tries = number(get, "QUERN_HUB_TRIES", settings.tries);
  settings.least_rate = rate(get, "QUERN_HUB_RATE", settings.least_rate);
  settings.most_bytes = bytes(get, "QUERN_HUB_LIMIT", settings.most_bytes);
  settings.timeout = std::chrono::seconds(number(get, "HF_HUB_DOWNLOAD_TIMEOUT", static_cast<std::uint32_t>(settings.timeout.count())));
  return settings;
}

}  // namespace quern::hub
