// x.name, x[key] and x[a:b:c], by the rules of Jinja's sandbox: only data, and the methods that library.hpp
// lists.
#pragma once

#include "runtime.hpp"

#include <optional>
#include <string_view>

namespace quern::jinja {

/// x.name: a method or attribute first, then an item. Undefined if there is neither.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// x[key]: an item first, then a method or attribute. Undefined if there is neither.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// What x.name finds without looking at items, as the filter 'attr' does.
std::optional<Value> get_own_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// x[start:stop:step]; each may be none.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace quern::jinja
