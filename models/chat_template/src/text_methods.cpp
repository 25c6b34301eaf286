// Methods of str that cut, join and recase. Those that search are in text_search_methods.cpp.
#include "library.hpp"

#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "str_format.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <algorithm>
#include <array>

namespace quern::jinja {

Value recase(Runtime& runtime, const Text& text, void (*convert)(TextBuilder&, std::string_view)) {
  TextBuilder out(runtime);
  out.reserve(text.text.size());
  convert(out, text.text);
  out.made_of(text);
  return out.finish();
}

Value replace_text(Runtime& runtime, const Text& source, const Text& old_source, const Text& new_part, std::int64_t count) {
  const std::string_view text = source.text;
  const std::string_view old_part = old_source.text;
  TextBuilder out(runtime);
  std::uint64_t left = count < 0 ? UINT64_MAX : static_cast<std::uint64_t>(count);
  std::size_t at = 0;
  if (old_part.empty()) {  // before each code point and at the end
    while (left > 0) {
      --left;
      out.append(new_part);
      runtime.step();
      if (at == text.size()) break;
      const std::string_view character = character_at(text, at);
      out.append(source, character);
      at += character.size();
    }
  } else {
    while (left > 0) {
      const std::size_t found = find_text(runtime, text, old_part, at);
      if (found == std::string_view::npos) break;
      --left;
      runtime.step();
      out.append(source, text.substr(at, found - at));
      out.leave_out(source, text.substr(found, old_part.size()));
      out.append(new_part);
      at = found + old_part.size();
    }
  }
  out.append(source, text.substr(at));
  if (!old_source.marks.none()) out.made_of(old_source);  // it decided which parts there are
  return out.finish();
}

Value join_values(Runtime& runtime, const Text& separator, const Counted<Value>& items) {
  TextBuilder out(runtime);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    runtime.step();
    print(runtime, items[i], out);
  }
  return out.finish();
}

namespace {

const Text& self_text(const Value& self) { return *self.text(); }

template <void (*convert)(TextBuilder&, std::string_view)>
Value recased_self(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "this method of str", arguments, {});
  return recase(runtime, self_text(self), convert);
}

template <bool left, bool right>
Value stripped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.strip", arguments, {"chars"});
  const Text& source = self_text(self);
  const std::string_view text = source.text;
  const Value* characters = parameters.find(0);
  if (characters != nullptr && !characters->is_none()) {
    const Text& set = parameters.text(0);
    return runtime.piece_by(source, strip_characters(runtime, text, set.text, left, right), set);
  }
  const std::string_view from_left = left ? strip_left(runtime, text) : text;
  return runtime.piece(source, right ? strip_right(runtime, from_left) : from_left);
}

// Splits from one end at most `limit` times (without end if it is negative).
class Splitter {
 public:
  /// `separator` is null where white space separates.
  Splitter(Runtime& runtime, const Text& text, const Text* separator, std::int64_t limit)
      : runtime_(runtime),
        source_(text),
        separator_(separator),
        text_(text.text),
        left_(limit < 0 ? UINT64_MAX : static_cast<std::uint64_t>(limit)),
        parts_(runtime) {}

  Counted<Value> at_separator() {
    const std::string_view separator = separator_->text;
    std::size_t at = 0;
    while (left_ > 0) {
      const std::size_t found = find_text(runtime_, text_, separator, at);
      if (found == std::string_view::npos) break;
      --left_;
      add(text_.substr(at, found - at));
      at = found + separator.size();
    }
    add(text_.substr(at));
    return std::move(parts_);
  }

  Counted<Value> at_separator_from_right() {
    const std::string_view separator = separator_->text;
    std::string_view rest = text_;
    while (left_ > 0) {
      const std::size_t found = find_text_from_right(runtime_, rest, separator);
      if (found == std::string_view::npos) break;
      --left_;
      add(rest.substr(found + separator.size()));
      rest = rest.substr(0, found);
    }
    add(rest);
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

  Counted<Value> at_space() {
    std::string_view rest = strip_left(runtime_, text_);
    while (!rest.empty()) {
      if (left_ == 0) {
        add(rest);
        break;
      }
      --left_;
      std::size_t end = rest.size();
      walk(runtime_, rest, [&](std::size_t start, std::size_t, char32_t c) {
        if (!is_space(c)) return true;
        end = start;
        return false;
      });
      add(rest.substr(0, end));
      rest = strip_left(runtime_, rest.substr(end));
    }
    return std::move(parts_);
  }

  Counted<Value> at_space_from_right() {
    std::string_view rest = strip_right(runtime_, text_);
    while (!rest.empty()) {
      if (left_ == 0) {
        add(rest);
        break;
      }
      --left_;
      std::size_t start = rest.size();
      while (start > 0) {
        const std::size_t previous = previous_offset(rest, start);
        std::size_t at = previous;
        if (is_space(next_code_point(rest, at))) break;
        if (start % 64 == 0) runtime_.step_characters(64);
        start = previous;
      }
      add(rest.substr(start));
      rest = strip_right(runtime_, rest.substr(0, start));
    }
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  void add(std::string_view part) {
    runtime_.step();
    parts_.push_back(separator_ == nullptr ? runtime_.piece(source_, part) : runtime_.piece_by(source_, part, *separator_));
  }

  Runtime& runtime_;
  const Text& source_;
  const Text* separator_;
  std::string_view text_;
  std::uint64_t left_;
  Counted<Value> parts_;
};

template <bool from_right>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.split", arguments, {"sep", "maxsplit"});
  const bool at_space = parameters.find(0) == nullptr || parameters.at(0).is_none();
  const Text* separator = at_space ? nullptr : &parameters.text(0);
  if (separator != nullptr && separator->text.empty()) runtime.fail("str.split: the separator is empty");
  Splitter splitter(runtime, self_text(self), separator, parameters.integer(1, -1));
  if (at_space) return runtime.list(from_right ? splitter.at_space_from_right() : splitter.at_space());
  return runtime.list(from_right ? splitter.at_separator_from_right() : splitter.at_separator());
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.splitlines", arguments, {"keepends"});
  Counted<Value> lines(runtime);
  const Text& text = self_text(self);
  for_each_line(runtime, text.text, parameters.truth(0, false), [&](std::string_view line) { lines.push_back(runtime.piece(text, line)); });
  return runtime.list(std::move(lines));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.partition", arguments, {"sep"}, 1);
  const Text& source = self_text(self);
  const std::string_view text = source.text;
  const Text& separator_text = parameters.text(0);
  const std::string_view separator = separator_text.text;
  if (separator.empty()) runtime.fail("str.partition: the separator is empty");
  const std::size_t found = from_right ? find_text_from_right(runtime, text, separator) : find_text(runtime, text, separator);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return runtime.piece_by(source, text.substr(begin, end - begin), separator_text);
  };
  if (found == std::string_view::npos) {
    const Value nothing = piece(0, 0);
    return from_right ? runtime.tuple({nothing, nothing, self}) : runtime.tuple({self, nothing, nothing});
  }
  const std::size_t behind = found + separator.size();
  return runtime.tuple({piece(0, found), piece(found, behind), piece(behind, text.size())});
}

Value join_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.join", arguments, {"iterable"}, 1);
  const Counted<Value> items = items_of(runtime, parameters.at(0));
  for (const Value& item : items) {
    runtime.step();
    if (item.text() == nullptr) runtime.fail(concat("str.join joins str and found a ", type_name(item)));
  }
  return join_values(runtime, self_text(self), items);
}

Value replace_in_self(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.replace", arguments, {"old", "new", "count"}, 2);
  return replace_text(runtime, self_text(self), parameters.text(0), parameters.text(1), parameters.integer(2, -1));
}

Value remove_prefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.removeprefix", arguments, {"prefix"}, 1);
  const Text& prefix = parameters.text(0);
  const std::string_view text = self_text(self).text;
  runtime.step_text(prefix.text.size());
  return text.starts_with(prefix.text) ? runtime.piece_by(self_text(self), text.substr(prefix.text.size()), prefix) : self;
}

Value remove_suffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.removesuffix", arguments, {"suffix"}, 1);
  const Text& suffix = parameters.text(0);
  const std::string_view text = self_text(self).text;
  runtime.step_text(suffix.text.size());
  return text.ends_with(suffix.text) ? runtime.piece_by(self_text(self), text.substr(0, text.size() - suffix.text.size()), suffix) : self;
}

constexpr Method text_method_table[] = {{"capitalize", recased_self<capitalize>},
                                        {"join", join_items},
                                        {"format", str_format},
                                        {"format_map", str_format_map},
                                        {"lower", recased_self<to_lower>},
                                        {"lstrip", stripped<true, false>},
                                        {"partition", partition<false>},
                                        {"removeprefix", remove_prefix},
                                        {"removesuffix", remove_suffix},
                                        {"replace", replace_in_self},
                                        {"rpartition", partition<true>},
                                        {"rsplit", split<true>},
                                        {"rstrip", stripped<false, true>},
                                        {"split", split<false>},
                                        {"splitlines", splitlines},
                                        {"strip", stripped<true, true>},
                                        {"swapcase", recased_self<swap_case>},
                                        {"title", recased_self<to_title>},
                                        {"upper", recased_self<to_upper>}};

}  // namespace

std::span<const Method> text_methods() noexcept { return text_method_table; }

}  // namespace quern::jinja
