// Python's operators over values: truth, equality, order, arithmetic, membership, iteration.
#pragma once

#include "ast.hpp"
#include "runtime.hpp"

#include <functional>
#include <optional>

namespace quern::jinja {

bool truth(const Value& value) noexcept;
bool equal(Runtime& runtime, const Value& left, const Value& right);
/// left < right; a type error where Python has no order.
bool less(Runtime& runtime, const Value& left, const Value& right);
bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right);
bool contains(Runtime& runtime, const Value& container, const Value& item);
/// Python's `is`. Numbers and strings are the same object here if they are of one type and equal.
bool same(Runtime& runtime, const Value& left, const Value& right);

Value arithmetic(Runtime& runtime, ArithmeticOp op, const Value& left, const Value& right);
Value negate(Runtime& runtime, const Value& value);
Value plus(Runtime& runtime, const Value& value);

/// A bool, an int or a float as a number.
struct Number {
  bool real = false;
  std::int64_t integer = 0;
  double value = 0;  ///< the same number as a double
};
std::optional<Number> as_number(const Value& value) noexcept;

/// len(value), or nothing for what has none. Counts the characters of a str as work.
std::optional<std::int64_t> length_of(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value) noexcept;
/// iter(value): a generator itself, or a new pass over anything else that can be iterated.
std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& value);
/// The remaining items of iter(value).
Counted<Value> items_of(Runtime& runtime, const Value& value);
/// One str for each code point.
Counted<Value> characters_of(Runtime& runtime, const Text& text);

/// Stable; `before` may throw and need not be a consistent order.
void merge_sort(Runtime& runtime, Counted<std::size_t>& order, const std::function<bool(std::size_t, std::size_t)>& before);

/// Whether a value can be a key of a mapping. Sequences know it, so that no tuple is walked.
bool is_hashable(const Value& value) noexcept;
/// A type error for a value that cannot be a key of a mapping.
void check_key(Runtime& runtime, const Value& key);
/// Sets a key of a mapping under construction.
void set_entry(Runtime& runtime, Entries& entries, Value key, Value value);

/// left % right where left is a str.
Value format_text(Runtime& runtime, const Text& format, const Value& right);

}  // namespace quern::jinja
