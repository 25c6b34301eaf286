// What a user calls a model: owner/name[@REVISION][:QUANT or :FILE], or a URL. Pure text.
#pragma once

#include <string>
#include <string_view>

namespace quern::hub {

struct ModelName {
  std::string text;        // as given
  std::string url;         // where this is a URL that is not the hub's; all below is then empty
  std::string repository;  // "owner/name"
  std::string revision;    // empty: none was named, which means main
  std::string selector;    // quantisation or file; empty: none was named
};

/// Throws Error(QUERN_INVALID_ARGUMENT) for a text that is neither. A URL below the endpoint is the hub's name for a file.
ModelName parse_model_name(const std::string& text, const std::string& endpoint);

/// Whether a path that a server names may be made below a folder of ours: relative, no "..", no empty part, and
/// nothing that printable() would escape.
bool is_safe_path(std::string_view path);

/// `count` hex digits in lower case, as commits (40) and SHA-256 sums (64) are written.
bool is_hex(std::string_view text, std::size_t count);

}  // namespace quern::hub
