// The filters, tests, methods and functions that a template may name. Tables; adding one touches its row and
// its file.
#pragma once

#include "runtime.hpp"

#include <span>
#include <string_view>

namespace quern::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Runtime&, const Value& input, const Arguments&);
};

struct Test {
  std::string_view name;
  bool (*holds)(Runtime&, const Value& input, const Arguments&);
};

/// Null if there is none of that name.
const Filter* find_filter(std::string_view name) noexcept;
const Test* find_test(std::string_view name) noexcept;
const GlobalFunction* find_global(std::string_view name) noexcept;

/// The method of a str, a mapping or a loop, or null. Throws Error(QUERN_UNSUPPORTED) for one that Python has
/// and we do not, where Jinja's sandbox would run it.
const Method* find_method(Runtime& runtime, const Value& self, std::string_view name);

/// Whether this is one of Python's methods that change a list or a mapping, which the sandbox makes
/// undefined.
bool would_change(const Value& self, std::string_view name) noexcept;

std::span<const Filter> text_filters() noexcept;
std::span<const Filter> number_filters() noexcept;
std::span<const Filter> sequence_filters() noexcept;
std::span<const Filter> selection_filters() noexcept;
std::span<const Method> text_methods() noexcept;
std::span<const Method> text_search_methods() noexcept;

}  // namespace quern::jinja
