// What a plain word of YAML 1.2 means.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::cli {

/// The JSON of a plain scalar of the core schema: null, a truth, a number; nothing where it is a text. `out_of_range` is set for numbers
/// that JSON or a double cannot hold (.inf, .nan, 1e999).
std::optional<std::string> yaml_word(std::string_view text, bool& out_of_range);

}  // namespace quern::cli
