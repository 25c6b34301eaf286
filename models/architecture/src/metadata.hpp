// Reads "{architecture}.key" from a model file, each number inside a stated range.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::models {

class Metadata {
 public:
  Metadata(const gguf::File& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  /// "llama.attention.head_count".
  std::string key(std::string_view suffix) const;

  // An integer in least .. most; QUERN_BAD_MODEL names the key, the value and the range otherwise, or that the key is missing.
  std::uint32_t require_count(std::string_view suffix, std::uint32_t least, std::uint32_t most) const;
  std::optional<std::uint32_t> find_count(std::string_view suffix, std::uint32_t least, std::uint32_t most) const;

  // A number above `above` and at most `most`, as f32 too.
  double require_number(std::string_view suffix, double above, double most) const;
  std::optional<double> find_number(std::string_view suffix, double above, double most) const;

  std::optional<std::string_view> find_string(std::string_view suffix) const;

  /// The Error with which a key is refused.
  template <typename... Parts>
  Error bad(std::string_view suffix, const Parts&... parts) const {
    return file_.bad_key(key(suffix), concat(parts...));
  }

 private:
  std::uint32_t checked(std::string_view suffix, std::uint64_t value, std::uint32_t least, std::uint32_t most) const;
  double checked(std::string_view suffix, double value, double above, double most) const;

  const gguf::File& file_;
  std::string architecture_;
};

}  // namespace quern::models
