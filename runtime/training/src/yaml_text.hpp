// Values as YAML: what a reader of YAML 1.2 takes for the same value again.
#pragma once

#include "quern/graph/json.hpp"

#include <string>
#include <string_view>

namespace quern::training {

/// A text, without quotes where it can be nothing else.
std::string yaml_text(std::string_view text);

/// Any value on one line.
std::string yaml_value(const Json& value);

}  // namespace quern::training
