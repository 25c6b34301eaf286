// The methods of str that fill a format in.
#pragma once

#include "runtime.hpp"

namespace quern::jinja {

/// "{} {name:>8}".format(*positional, **keyword)
Value str_format(Runtime& runtime, const Value& self, const Arguments& arguments);
/// "{name}".format_map(mapping)
Value str_format_map(Runtime& runtime, const Value& self, const Arguments& arguments);

}  // namespace quern::jinja
