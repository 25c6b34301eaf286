// GET over HTTP: redirects, ranges, the token's scope, cancellation. Knows no hub and no file.
#pragma once

#include "curl_library.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace quern::hub {

/// A transfer that failed in a way that another try may mend.
struct Interrupted : std::runtime_error {
  using runtime_error::runtime_error;
  bool reached = true;                       // false: no connection was made
  std::optional<std::chrono::seconds> wait;  // what the server asks for
};

struct Request {
  std::string url;
  std::uint64_t from = 0;  // the first byte wanted
  std::string if_range;    // an entity tag: bytes from the start if the file is another one now
};

struct Response {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string refusal;                         // the start of the body where the status is not 2xx

  std::string header(const std::string& name) const;
  /// The first byte of the body within the file, and the file's size where the server says it.
  std::uint64_t from() const;
  std::optional<std::uint64_t> file_bytes() const;
};

/// Takes the body of a 200 or 206, piece by piece. May throw.
using BodySink = std::function<void(const Response&, std::span<const std::byte>)>;

class Http {
 public:
  struct Options {
    std::string token, token_origin;   // the token goes to URLs of this origin alone
    std::chrono::seconds timeout{30};  // without a byte, and the time over which `least_rate` is asked for
    std::uint64_t least_rate = 1024;   // bytes a second
    std::function<bool()> go_on;       // asked several times a second; false cancels
  };

  explicit Http(Options options);

  /// Follows up to ten redirects, to http and https URLs and not from https to http. Heads are bounded, bodies of refusals are not read to
  /// their end. Throws Interrupted (also where less than `least_rate` comes), Error(QUERN_CANCELLED), or Error(QUERN_IO) for what another
  /// try cannot mend; a refusal by status is a response.
  Response get(const Request& request, const BodySink& sink);

 private:
  Response one_hop(const Request& request, const std::string& url, const BodySink& sink);

  const CurlLibrary& curl_;
  Options options_;
  std::unique_ptr<CURL, void (*)(CURL*)> easy_;
};

/// "https://host:port" of a URL, with its default port. Throws Error(QUERN_INVALID_ARGUMENT) where it is no http or https URL.
std::string origin_of(const std::string& url);

/// A path with what a URL does not take as %XX; '/' stays.
std::string url_path(const std::string& path);

/// The reverse, of the last part of a URL's path; empty where there is none.
std::string file_name_of_url(const std::string& url);

}  // namespace quern::hub
