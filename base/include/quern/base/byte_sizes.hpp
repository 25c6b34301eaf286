// Numbers of bytes as people write and read them: 8G, 1.5G, "27.0 GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quern {

/// Bytes of "8G", "1.5G", "512M", "64K", "1T" or "1048576": a whole or decimal number and one letter of either case for a power of
/// 1024, with or without "iB" or "B" after it. Nothing for other text, a negative number or one above 2^63.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "1 byte", "512 bytes", "1.5 KiB", "379.4 MiB", "27.0 GiB".
std::string byte_words(std::uint64_t bytes);

/// Both in words, with as many decimals as it takes for two different numbers to look different.
std::pair<std::string, std::string> byte_words_apart(std::uint64_t one, std::uint64_t other);

/// "1 token", "2 tokens": `noun` is the singular of a word whose plural ends in s.
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace quern
