// Numbers as people write and read them: 7,241,732,096; bytes are in byte_sizes.hpp.
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

/// `value` with so many decimals, whatever the locale.
std::string fixed(double value, int decimals);

/// 0.00021 is "2.10e-04".
std::string scientific(double value);

}  // namespace quern::cli
