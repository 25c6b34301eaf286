// One file from a URL to a path: goes on where an earlier download ended, sums what comes, moves it into place when it is right.
#pragma once

#include "http.hpp"
#include "patience.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace quern::hub {

struct Download {
  std::string url;
  std::string label;                   // for messages
  std::filesystem::path incomplete;    // grows; kept when the download fails for the network's or the disk's sake
  std::optional<std::uint64_t> bytes;  // as stated by who should know
  std::string sha256;                  // the same; empty: not stated
  std::string if_range;                // tag of the file that `incomplete` is the start of
  bool with_token = false;
  std::uint64_t most_bytes = UINT64_MAX;                               // a longer file is refused
  std::function<void(std::uint64_t done, std::uint64_t total)> moved;  // after each piece; total 0: unknown
  std::function<void(const Response&)> begun;                          // before the first piece of each answer; may be empty
};

struct Downloaded {
  std::uint64_t bytes = 0;
  std::string sha256;
};

/// `incomplete` is whole and right when this returns; its caller renames it. Throws Error: QUERN_BAD_MODEL for another sum or size (the
/// file is then removed), QUERN_IO for network and disk (removed where the server states no size and `most_bytes` or the disk's room is
/// used up), and as check_status().
Downloaded download(const Download& wanted, Http& http, Patience& patience);

}  // namespace quern::hub
