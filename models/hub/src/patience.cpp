// See patience.hpp.
#include "patience.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <thread>

namespace quern::hub {
namespace {

constexpr std::chrono::seconds longest_wait{300};
constexpr std::chrono::milliseconds tick{100};

/// Retry-After: seconds, or a date.
std::optional<std::chrono::seconds> retry_after(const Response& response) {
  const std::string text = response.header("retry-after");
  long seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc{} && end == text.data() + text.size()) return std::chrono::seconds(std::max(seconds, 0L));
  const std::time_t then = text.empty() ? -1 : curl_library().getdate(text.c_str(), nullptr);
  if (then == -1) return std::nullopt;
  return std::chrono::seconds(std::max<long>(then - std::time(nullptr), 0));
}

}  // namespace

void Patience::wait_or_give_up(const Interrupted& interrupted) {
  connected_ = connected_ || interrupted.reached;
  ++failures_;
  if (!connected_) throw Error(QUERN_IO, interrupted.what());
  if (failures_ >= tries_) {
    throw Error(QUERN_IO, concat(interrupted.what(), "; gave up after ", failures_, failures_ == 1 ? " try" : " tries",
                                 "; what has come is kept, and the same command goes on from there"));
  }
  const std::chrono::seconds wait = interrupted.wait.value_or(std::chrono::seconds(1 << std::min(failures_ - 1, 6u)));
  if (wait > longest_wait)
    throw Error(QUERN_IO, concat(interrupted.what(), "; the server asks to wait ", wait.count(), " seconds; try again then"));
  const auto until = std::chrono::steady_clock::now() + wait;
  const std::string reason = concat(interrupted.what(), "; trying again in ", wait.count(), " s");
  do {
    if (!report_(reason)) throw Error(QUERN_CANCELLED, "cancelled");
    std::this_thread::sleep_until(std::min(until, std::chrono::steady_clock::now() + tick));
  } while (std::chrono::steady_clock::now() < until);
}

void check_status(const Response& response, const std::string& what, bool with_token) {
  const long status = response.status;
  if (status == 200 || status == 206) return;
  std::string said = response.header("x-error-message");
  const std::string code = response.header("x-error-code");
  if (!code.empty()) said = code + (said.empty() ? "" : ": " + said);
  const std::string answer = concat(what, ": the server answers ", status, said.empty() ? "" : " (" + printable_start(said, 300) + ")");
  const bool gated = code == "GatedRepo";
  if (status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504) {
    Interrupted interrupted(answer);
    interrupted.wait = retry_after(response);
    throw interrupted;
  }
  if (gated) {
    throw Error(QUERN_PERMISSION,
                concat(answer, "; ask for access on the model's page", with_token ? "" : ", then set HF_TOKEN to a token of that account"));
  }
  if (status == 401) {
    throw Error(QUERN_PERMISSION, concat(answer, with_token ? "; the token (HF_TOKEN) is not valid for it, or it does not exist"
                                                            : "; it does not exist, or it is private: check the name, or set HF_TOKEN"));
  }
  if (status == 403) throw Error(QUERN_PERMISSION, concat(answer, "; the account of the token (HF_TOKEN) may not read it"));
  if (status == 404 || status == 410) throw Error(QUERN_NOT_FOUND, concat(answer, "; check the name"));
  throw Error(QUERN_IO, answer);
}

}  // namespace quern::hub
