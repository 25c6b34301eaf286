// Text of parts, for messages and names. No stream is made for strings and whole numbers, of which nearly all are.
#pragma once

#include <charconv>
#include <concepts>
#include <ios>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace quern {
namespace concat_detail {

/// Appends one part as a std::ostream writes it; false where the text ends there.
template <typename Part>
bool append(std::string& text, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, const char*>) {
    const char* const characters = part;
    if (characters == nullptr) return false;
    text += characters;
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (std::same_as<Part, char> || std::same_as<Part, signed char> || std::same_as<Part, unsigned char>) {
    text += static_cast<char>(part);
  } else if constexpr (std::same_as<Part, bool>) {
    text += part ? '1' : '0';
  } else if constexpr (std::integral<Part>) {
    char digits[24];  // 64 bits have 20 digits, or 19 and a sign
    text.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
  } else {
    std::ostringstream out;
    out.exceptions(std::ios_base::badbit);
    try {
      out << part;
    } catch (const std::ios_base::failure&) { return false; }
    text += out.str();
  }
  return true;
}

}  // namespace concat_detail

/// Joins anything that streams into one string; a null `const char*` ends it. Throws std::bad_alloc where memory ran out: a stream alone
/// would give the text cut short, and a name cut short is another name.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (void)(concat_detail::append(text, parts) && ...);
  return text;
}

}  // namespace quern
