// Methods of str that search, ask and pad.
#include "library.hpp"

#include "operators.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <algorithm>

namespace quern::jinja {

namespace {

std::string_view self_view(const Value& self) { return self.text()->text; }

// The part of the text that 'start' and 'end' arguments select, and the code points in front of it.
struct Window {
  std::string_view text;
  std::int64_t skipped = 0;
  bool valid = true;  ///< false if start lies behind the end, where not even "" is found
};

Window window_of(Runtime& runtime, std::string_view text, const Parameters& parameters) {
  runtime.step_text(text.size());
  const auto given = [&](std::size_t index) { return parameters.find(index) != nullptr && !parameters.at(index).is_none(); };
  if (!given(1) && !given(2)) return {text};
  const auto size = static_cast<std::int64_t>(count_code_points(text));
  const auto resolve = [&](std::int64_t index) { return index < 0 ? std::max<std::int64_t>(index + size, 0) : index; };
  const std::int64_t start = given(1) ? resolve(parameters.integer(1, 0)) : 0;
  const std::int64_t end = given(2) ? std::min(resolve(parameters.integer(2, 0)), size) : size;
  if (start > end) return {{}, start, false};
  const std::size_t first = offset_of_code_point(text, static_cast<std::size_t>(start));
  const std::string_view rest = text.substr(first);
  return {rest.substr(0, offset_of_code_point(rest, static_cast<std::size_t>(end - start))), start, true};
}

// The index in code points, or -1.
std::int64_t find_index(Runtime& runtime, const Value& self, const Parameters& parameters, bool from_right) {
  const Window part = window_of(runtime, self_view(self), parameters);
  const std::string_view needle = parameters.string(0);
  if (!part.valid) return -1;
  const std::size_t found = from_right ? find_text_from_right(runtime, part.text, needle) : find_text(runtime, part.text, needle);
  if (found == std::string_view::npos) return -1;
  return part.skipped + static_cast<std::int64_t>(count_code_points(part.text.substr(0, found)));
}

template <bool from_right>
Value find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.find", arguments, {"sub", "start", "end"}, 1);
  return find_index(runtime, self, parameters, from_right);
}

Value index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.index", arguments, {"sub", "start", "end"}, 1);
  const std::int64_t found = find_index(runtime, self, parameters, false);
  if (found < 0) runtime.fail("str.index: the text does not occur");
  return found;
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.count", arguments, {"sub", "start", "end"}, 1);
  const Window part = window_of(runtime, self_view(self), parameters);
  const std::string_view needle = parameters.string(0);
  if (!part.valid) return std::int64_t{0};
  if (needle.empty()) return static_cast<std::int64_t>(count_code_points(part.text)) + 1;
  std::int64_t total = 0;
  for (std::size_t at = 0; (at = find_text(runtime, part.text, needle, at)) != std::string_view::npos; at += needle.size()) {
    runtime.step(1 + needle.size() / 64);
    ++total;
  }
  return total;
}

// startswith and endswith: one text or a tuple of them.
template <bool at_end>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, at_end ? "str.endswith" : "str.startswith", arguments, {"affix", "start", "end"}, 1);
  const Window part = window_of(runtime, self_view(self), parameters);
  const auto matches = [&](std::string_view affix) {
    runtime.step_text(affix.size());
    return part.valid && (at_end ? part.text.ends_with(affix) : part.text.starts_with(affix));
  };
  const Sequence* choices = parameters.at(0).sequence();
  if (choices == nullptr || choices->kind != SequenceKind::tuple) return matches(parameters.string(0));
  for (const Value& choice : choices->items) {
    runtime.step();
    if (choice.text() == nullptr) runtime.fail(concat("str.startswith needs str and found a ", type_name(choice)));
    if (matches(choice.text()->text)) return true;
  }
  return false;
}

bool is_alphanumeric(char32_t c) noexcept { return is_alphabetic(c) || is_digit(c) || is_numeric(c); }

// True if the text is not empty and every code point is of the kind.
template <bool (*accepts)(char32_t) noexcept>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "this method of str", arguments, {});
  const std::string_view text = self_view(self);
  bool all = !text.empty();
  walk(runtime, text, [&](std::size_t, std::size_t, char32_t c) { return all = accepts(c); });
  return all;
}

// True if there is a letter with case and every one of them is `wanted`.
template <bool (*wanted)(char32_t) noexcept>
Value has_only_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "this method of str", arguments, {});
  return has_only(runtime, self_view(self), wanted);
}

Value pad(Runtime& runtime, const Text& text, std::int64_t left, std::int64_t right, const Text& fill) {
  TextBuilder out(runtime);
  out.reserve(text.text.size());
  out.append(static_cast<std::uint64_t>(left), fill);
  out.append(text);
  out.append(static_cast<std::uint64_t>(right), fill);
  return out.finish();
}

std::int64_t missing_width(Runtime& runtime, std::string_view text, std::int64_t width) {
  runtime.step_text(text.size());
  const auto size = static_cast<std::int64_t>(count_code_points(text));
  return width > size ? width - size : 0;
}

enum class Side { left, right, centre };

template <Side side>
Value justify(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.center, ljust and rjust", arguments, {"width", "fillchar"}, 1);
  const Value space = runtime.own_text(" ");
  const Text& fill = parameters.find(1) == nullptr ? *space.text() : parameters.text(1);
  if (fill.text.empty() || character_at(fill.text, 0).size() != fill.text.size())
    runtime.fail("the fill of a padded str is not one character");
  const Text& text = *self.text();
  if (side == Side::centre) return center_text(runtime, text, parameters.integer(0, 0), fill);
  const std::int64_t missing = missing_width(runtime, text.text, parameters.integer(0, 0));
  return side == Side::left ? pad(runtime, text, 0, missing, fill) : pad(runtime, text, missing, 0, fill);
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.zfill", arguments, {"width"}, 1);
  const std::string_view text = self_view(self);
  const std::int64_t missing = missing_width(runtime, text, parameters.integer(0, 0));
  const bool has_sign = !text.empty() && (text.front() == '-' || text.front() == '+');
  TextBuilder out(runtime);
  out.append(*self.text(), text.substr(0, has_sign ? 1 : 0));
  out.append(static_cast<std::uint64_t>(missing), "0");
  out.append(*self.text(), text.substr(has_sign ? 1 : 0));
  return out.finish();
}

constexpr Method search_method_table[] = {{"center", justify<Side::centre>},
                                          {"count", count},
                                          {"endswith", has_affix<true>},
                                          {"find", find<false>},
                                          {"index", index},
                                          {"isalnum", all_are<is_alphanumeric>},
                                          {"isalpha", all_are<is_alphabetic>},
                                          {"isdigit", all_are<is_digit>},
                                          {"islower", has_only_case<is_lower>},
                                          {"isnumeric", all_are<is_numeric>},
                                          {"isspace", all_are<is_space>},
                                          {"isupper", has_only_case<is_upper>},
                                          {"ljust", justify<Side::left>},
                                          {"rfind", find<true>},
                                          {"rjust", justify<Side::right>},
                                          {"startswith", has_affix<false>},
                                          {"zfill", zfill}};

}  // namespace

Value center_text(Runtime& runtime, const Text& text, std::int64_t width, const Text& fill) {
  const std::int64_t missing = missing_width(runtime, text.text, width);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return pad(runtime, text, left, missing - left, fill);
}

bool has_only(Runtime& runtime, std::string_view text, bool (*wanted)(char32_t) noexcept) {
  bool found = false;
  bool others = false;
  walk(runtime, text, [&](std::size_t, std::size_t, char32_t c) {
    if (wanted(c)) {
      found = true;
    } else if (is_lower(c) || is_upper(c) || is_title(c)) {
      others = true;
    }
    return !others;
  });
  return found && !others;
}

std::span<const Method> text_search_methods() noexcept { return search_method_table; }

}  // namespace quern::jinja
