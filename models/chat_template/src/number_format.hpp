// Python's format(value, specification): "[[fill]align][sign][z][#][0][width][grouping][.precision][type]".
#pragma once

#include "runtime.hpp"

#include <string_view>

namespace quern::jinja {

/// Appends the value in the manner that the specification asks for. An empty one gives str(value). A str keeps its marks,
/// unless the specification is not the template's own: then all is foreign, as numbers and fill are always.
void write_formatted(Runtime& runtime, const Value& value, std::string_view specification, bool own_specification, TextBuilder& out);

}  // namespace quern::jinja
