// Numbers as people write and read them: 8G, 512M, 7,241,732,096, 27,625.0 MiB.
#pragma once

#include "quern/base/byte_sizes.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::cli {

/// A whole number of decimal digits, at most `most`; nothing for other text.
std::optional<std::uint64_t> parse_count(std::string_view text, std::uint64_t most);

/// 7241732096 is "7,241,732,096".
std::string with_commas(std::uint64_t value);

/// Bytes in MiB with one decimal: "27,625.0 MiB".
std::string in_mib(std::uint64_t bytes);

/// `value` with so many decimals, whatever the locale.
std::string fixed(double value, int decimals);

}  // namespace quern::cli
