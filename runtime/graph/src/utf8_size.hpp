// The characters of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace quern {

/// Bytes of the well-formed UTF-8 character at the front (Unicode 15, table 3-7); 0 if there is none.
inline std::size_t utf8_size(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = at(0), second = at(1);
  const auto continues = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned least = lead == 0xe0 ? 0xa0 : 0x80, most = lead == 0xed ? 0x9f : 0xbf;
    return second >= least && second <= most && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned least = lead == 0xf0 ? 0x90 : 0x80, most = lead == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace quern
