// Assembles UTF-8 from pieces that may end inside a character.
#include "quern/models/utf8_stream.hpp"

#include "unicode.hpp"

#include <cstdint>

namespace quern {
namespace {

struct Prefix {
  std::size_t length = 0;  // of the longest prefix of a valid sequence; at least 1
  bool complete = false;   // it is a character
  bool may_grow = false;   // the text ended before it was decided
};

// Table 3-7 of the Unicode standard: the second byte's range depends on the first.
Prefix longest_prefix(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
    held_.clear();
  }
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Prefix prefix = longest_prefix(bytes);
    if (prefix.may_grow) {
      held_ = bytes;
      break;
    }
    out += prefix.complete ? bytes.substr(0, prefix.length) : tokenizer::replacement_character;
    bytes.remove_prefix(prefix.length);
  }
  return out;
}

std::string Utf8Stream::flush() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(tokenizer::replacement_character);  // what is held is one prefix, so one replacement
}

}  // namespace quern
