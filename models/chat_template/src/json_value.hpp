// Values of a template from JSON.
#pragma once

#include "quern/graph/json.hpp"
#include "runtime.hpp"

#include <functional>
#include <string_view>

namespace quern::jinja {

/// All text of it, names of members too, is foreign. `what` names the value in errors. Throws Error(QUERN_INVALID_ARGUMENT)
/// for text that is not UTF-8 and for an integer beyond 64 bits.
Value json_value(Runtime& runtime, const Json& json, std::string_view what);

/// An object, with the values that `value_of` makes. The last of members with one name counts, in the place of the first.
Value mapping_value(Runtime& runtime, const Json::Members& members, const std::function<Value(const Json::Member&)>& value_of);

}  // namespace quern::jinja
