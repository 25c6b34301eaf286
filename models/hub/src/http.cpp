// See http.hpp.
#include "http.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <exception>

namespace quern::hub {
namespace {

constexpr int most_redirects = 10;
constexpr std::size_t refusal_bytes = 4096;
constexpr std::size_t most_head_bytes =
    256 << 10;  // of all heads of one transfer, those of proxies and interim ones too; servers keep to 16 KiB

/// libcurl's TLS may write to a closed connection; that must not end the program with SIGPIPE. Only this thread's is held back.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec none{};
    if (!was_pending_) (void)sigtimedwait(&pipe_, nullptr, &none);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// A parsed URL. Parts are asked for as libcurl will use them, so that nothing is judged by another reading than its own.
class Url {
 public:
  explicit Url(const std::string& text) : curl_(curl_library()), handle_(curl_.url(), curl_.url_cleanup) {
    if (handle_ == nullptr) throw std::bad_alloc();
    set(text);
  }
  void set(const std::string& text) {
    if (!try_set(text)) throw Error(QUERN_INVALID_ARGUMENT, concat(in_quotes(text, 200), " is not an http or https URL"));
  }
  /// Relative ones are resolved. False for what is no http or https URL.
  bool try_set(const std::string& text) {
    return curl_.url_set(handle_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK &&
           (part(CURLUPART_SCHEME) == "https" || part(CURLUPART_SCHEME) == "http");
  }
  std::string part(CURLUPart which, unsigned flags = 0) const {
    char* text = nullptr;
    if (curl_.url_get(handle_.get(), which, &text, flags) != CURLUE_OK) return {};
    const std::unique_ptr<char, decltype(curl_.free)> owner(text, curl_.free);
    return text;
  }
  std::string origin() const {
    return part(CURLUPART_SCHEME) + "://" + part(CURLUPART_HOST) + ":" + part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  }
  CURLU* handle() const { return handle_.get(); }

 private:
  const CurlLibrary& curl_;
  std::unique_ptr<CURLU, decltype(CurlLibrary::url_cleanup)> handle_;
};

/// What the callbacks of one transfer share. They may not throw through libcurl.
struct Transfer {
  using Clock = std::chrono::steady_clock;
  Transfer(const BodySink& to, const Http::Options& by, std::string from) : sink(to), options(by), origin(std::move(from)) {}

  Response response;
  const BodySink& sink;
  const Http::Options& options;
  std::string origin;
  std::exception_ptr trouble;
  Clock::time_point last_byte = Clock::now();
  bool stalled = false;
  bool enough = false;  // of a body that is a refusal
  std::size_t head_bytes = 0;
  std::optional<Clock::time_point> window_start;  // the first byte, and then every `timeout`
  std::uint64_t window_bytes = 0;

  /// False where too little came since the window began. A transfer in which nothing comes any more is found by its stall.
  bool arrived(std::size_t bytes) {
    last_byte = Clock::now();
    if (!window_start) window_start = last_byte;
    window_bytes += bytes;
    if (last_byte - *window_start < options.timeout) return true;
    const auto least = options.least_rate * static_cast<std::uint64_t>(options.timeout.count());
    if (window_bytes < least) {
      trouble = std::make_exception_ptr(Interrupted(concat(origin, ": only ", window_bytes, " bytes came in ", options.timeout.count(),
                                                           " s, and at least ", options.least_rate, " a second are asked for")));
      return false;
    }
    window_start = last_byte;
    window_bytes = 0;
    return true;
  }
};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? std::string() : std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::size_t on_header(const char* data, std::size_t, std::size_t size, void* user) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    const std::string_view line(data, size);
    transfer.head_bytes += size;
    if (transfer.head_bytes > most_head_bytes)
      throw Error(QUERN_IO,
                  concat(transfer.origin, ": the head of the answer is longer than ", most_head_bytes, " bytes; this is refused"));
    if (!transfer.arrived(size)) return 0;
    if (line.starts_with("HTTP/")) {  // of this response, and not of a proxy's or an interim one before it
      transfer.response = {};
      const std::size_t space = line.find(' ');
      if (space != line.npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), transfer.response.status);
      return size;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return size;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    transfer.response.headers[name] = trimmed(line.substr(colon + 1));
    return size;
  } catch (...) {
    transfer.trouble = std::current_exception();
    return 0;
  }
}

std::size_t on_body(const char* data, std::size_t, std::size_t size, void* user) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (!transfer.arrived(size)) return 0;
    if (transfer.response.status == 200 || transfer.response.status == 206) {
      if (const std::string encoding = transfer.response.header("content-encoding"); !encoding.empty() && encoding != "identity")
        throw Error(QUERN_IO,
                    concat(transfer.origin, ": the answer has the encoding ", in_quotes(encoding, 40), ", which was not asked for"));
      transfer.sink(transfer.response, std::as_bytes(std::span(data, size)));
    } else {
      std::string& text = transfer.response.refusal;
      text.append(data, std::min(size, refusal_bytes - text.size()));
      transfer.enough = text.size() == refusal_bytes;  // a body without end is not read to it
      if (transfer.enough) return 0;
    }
    return size;
  } catch (...) {
    transfer.trouble = std::current_exception();
    return 0;
  }
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    transfer.stalled = Transfer::Clock::now() - transfer.last_byte > transfer.options.timeout;
    return transfer.stalled || (transfer.options.go_on && !transfer.options.go_on()) ? 1 : 0;
  } catch (...) {
    transfer.trouble = std::current_exception();
    return 1;
  }
}

[[noreturn]] void fail(const CurlLibrary& curl, CURLcode code, const std::string& origin, const char* detail) {
  const std::string reason = concat(origin, ": ", *detail != '\0' ? detail : curl.easy_strerror(code));
  switch (code) {
    case CURLE_OUT_OF_MEMORY: throw std::bad_alloc();
    case CURLE_ABORTED_BY_CALLBACK: throw Error(QUERN_CANCELLED, "cancelled");
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: {
      Interrupted interrupted(concat(reason, "; check the network, the proxy (https_proxy) and HF_ENDPOINT"));
      interrupted.reached = false;
      throw interrupted;
    }
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      throw Error(QUERN_IO, concat(reason, "; the server's certificate is not trusted here (is the package ca-certificates installed?)"));
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_NOT_BUILT_IN: throw Error(QUERN_IO, reason);
    default: throw Interrupted(reason);
  }
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Response::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::uint64_t Response::from() const {
  const std::string range = header("content-range");  // bytes 100-199/200
  if (status != 206 || !range.starts_with("bytes ")) return 0;
  return number(std::string_view(range).substr(6, range.find('-') - 6)).value_or(0);
}

std::optional<std::uint64_t> Response::file_bytes() const {
  if (status != 206) return number(header("content-length"));
  const std::string range = header("content-range");
  return number(std::string_view(range).substr(std::min(range.rfind('/'), range.size() - 1) + 1));
}

Http::Http(Options options) : curl_(curl_library()), options_(std::move(options)), easy_(curl_.easy_init(), curl_.easy_cleanup) {
  if (easy_ == nullptr) throw std::bad_alloc();
}

Response Http::one_hop(const Request& request, const std::string& text, const BodySink& sink) {
  CURL* easy = easy_.get();
  curl_.easy_reset(easy);
  const Url url(text);
  std::unique_ptr<curl_slist, decltype(curl_.slist_free_all)> list(nullptr, curl_.slist_free_all);
  const auto add_header = [&](const std::string& line) {
    curl_slist* longer = curl_.slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)list.release();
    list.reset(longer);
  };
  if (!options_.token.empty() && url.origin() == options_.token_origin) add_header("Authorization: Bearer " + options_.token);
  const std::string range = concat(request.from, "-");
  if (request.from > 0) {
    curl_.easy_setopt(easy, CURLOPT_RANGE, range.c_str());
    if (!request.if_range.empty()) add_header("If-Range: " + request.if_range);
  }
  Transfer transfer(sink, options_, url.origin());
  char detail[CURL_ERROR_SIZE] = "";
  curl_.easy_setopt(easy, CURLOPT_CURLU, url.handle());
  curl_.easy_setopt(easy, CURLOPT_HTTPHEADER, list.get());
  curl_.easy_setopt(easy, CURLOPT_USERAGENT, "quern/" QUERN_LIBRARY_VERSION);
  curl_.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.timeout.count()));
  curl_.easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
  curl_.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_.easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_.easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_.easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
  const CURLcode code = [&] {
    const NoSigpipe held_back;
    return curl_.easy_perform(easy);
  }();
  if (transfer.trouble) std::rethrow_exception(transfer.trouble);
  if (transfer.enough) return std::move(transfer.response);
  if (transfer.stalled) throw Interrupted(concat(url.origin(), ": nothing came for ", options_.timeout.count(), " s"));
  if (code != CURLE_OK) fail(curl_, code, url.origin(), detail);
  return std::move(transfer.response);
}

Response Http::get(const Request& request, const BodySink& sink) {
  std::string url = request.url;
  for (int hop = 0; hop <= most_redirects; ++hop) {
    Response response = one_hop(request, url, sink);
    const bool redirected = response.status == 301 || response.status == 302 || response.status == 303 || response.status == 307 ||
                            response.status == 308;
    if (!redirected) return response;
    Url next(url);
    const std::string target = response.header("location");
    if (target.empty()) throw Error(QUERN_IO, concat(next.origin(), ": a redirect (", response.status, ") that names no place"));
    const bool was_https = next.part(CURLUPART_SCHEME) == "https";
    if (!next.try_set(target))
      throw Error(QUERN_IO,
                  concat(origin_of(url), " redirects to ", in_quotes(target, 200), ", which is not an http or https URL; this is refused"));
    if (was_https && next.part(CURLUPART_SCHEME) != "https") {
      throw Error(QUERN_IO, concat(origin_of(url), " redirects to ", next.origin(), ", which is not encrypted; this is refused"));
    }
    url = next.part(CURLUPART_URL);
  }
  throw Error(QUERN_IO, concat(origin_of(request.url), ": more than ", most_redirects, " redirects"));
}

std::string origin_of(const std::string& url) { return Url(url).origin(); }

std::string url_path(const std::string& path) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string out;
  for (const char c : path) {
    if (plain.find(c) != plain.npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
    }
  }
  return out;
}

std::string file_name_of_url(const std::string& url) {
  const std::string path = Url(url).part(CURLUPART_PATH, CURLU_URLDECODE);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace quern::hub
