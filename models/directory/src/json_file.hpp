// A JSON file of the directory, read whole, with errors that name it and the field.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/graph/json.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quern::directory {

/// "<folder>/<name>"; "<folder><name>" where the folder is the root.
std::string path_in(const std::string& folder, std::string_view name);

class JsonFile {
 public:
  /// Far above any configuration; tokenizer.json has limits of its own.
  static constexpr std::uint64_t most_bytes = 16 << 20;

  /// Nothing if there is no such file. Throws Error(QUERN_BAD_MODEL) for text that is no JSON object, and what `taken` throws.
  static std::optional<JsonFile> find(std::string path, std::uint64_t bytes = most_bytes, std::span<const Json::Taken> taken = {});

  /// What other files stand for; `path` names one of them.
  static JsonFile made_of(std::string path, Json json);

  const std::string& path() const noexcept { return path_; }
  const Json& json() const noexcept { return json_; }
  /// "<path>: '<field>' <text>".
  Error bad(std::string_view field, std::string_view text) const;
  Error unsupported(std::string_view field, std::string_view text) const;

 private:
  std::string path_;
  Json json_;
};

}  // namespace quern::directory
