// Methods of str that cut, join and recase. Those that search are in text_search_methods.cpp.
#include "library.hpp"

#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <algorithm>
#include <array>

namespace quern::jinja {

Value recase(Runtime& runtime, std::string_view text, void (*convert)(TextBuilder&, std::string_view)) {
  TextBuilder out(runtime);
  out.reserve(text.size());
  convert(out, text);
  return out.finish();
}

Value replace_text(Runtime& runtime, std::string_view text, std::string_view old_part,
                   std::string_view new_part, std::int64_t count) {
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
      out.append(character);
      at += character.size();
    }
  } else {
    while (left > 0) {
      const std::size_t found = find_text(runtime, text, old_part, at);
      if (found == std::string_view::npos) break;
      --left;
      runtime.step();
      out.append(text.substr(at, found - at));
      out.append(new_part);
      at = found + old_part.size();
    }
  }
  out.append(text.substr(at));
  return out.finish();
}

Value join_values(Runtime& runtime, std::string_view separator, const Counted<Value>& items) {
  TextBuilder out(runtime);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(separator);
    runtime.step();
    print(runtime, items[i], out);
  }
  return out.finish();
}

namespace {

std::string_view self_text(const Value& self) { return self.text()->text; }

template <void (*convert)(TextBuilder&, std::string_view)>
Value recased(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "this method of str", arguments, {});
  return recase(runtime, self_text(self), convert);
}

template <bool left, bool right>
Value stripped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.strip", arguments, {"chars"});
  const std::string_view text = self_text(self);
  const Value* characters = parameters.find(0);
  if (characters != nullptr && !characters->is_none()) {
    return runtime.text(strip_characters(runtime, text, parameters.string(0), left, right));
  }
  const std::string_view from_left = left ? strip_left(runtime, text) : text;
  return runtime.text(right ? strip_right(runtime, from_left) : from_left);
}

// Splits from one end at most `limit` times (without end if it is negative).
class Splitter {
 public:
  Splitter(Runtime& runtime, std::string_view text, std::int64_t limit)
      : runtime_(runtime),
        text_(text),
        left_(limit < 0 ? UINT64_MAX : static_cast<std::uint64_t>(limit)),
        parts_(runtime) {}

  Counted<Value> at_separator(std::string_view separator) {
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

  Counted<Value> at_separator_from_right(std::string_view separator) {
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
    parts_.push_back(runtime_.text(part));
  }

  Runtime& runtime_;
  std::string_view text_;
  std::uint64_t left_;
  Counted<Value> parts_;
};

template <bool from_right>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.split", arguments, {"sep", "maxsplit"});
  Splitter splitter(runtime, self_text(self), parameters.integer(1, -1));
  if (parameters.find(0) == nullptr || parameters.at(0).is_none()) {
    return runtime.list(from_right ? splitter.at_space_from_right() : splitter.at_space());
  }
  const std::string_view separator = parameters.string(0);
  if (separator.empty()) runtime.fail("str.split: the separator is empty");
  return runtime.list(from_right ? splitter.at_separator_from_right(separator)
                                 : splitter.at_separator(separator));
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.splitlines", arguments, {"keepends"});
  Counted<Value> lines(runtime);
  for_each_line(runtime, self_text(self), parameters.truth(0, false),
                [&](std::string_view line) { lines.push_back(runtime.text(line)); });
  return runtime.list(std::move(lines));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.partition", arguments, {"sep"}, 1);
  const std::string_view text = self_text(self);
  const std::string_view separator = parameters.string(0);
  if (separator.empty()) runtime.fail("str.partition: the separator is empty");
  const std::size_t found =
      from_right ? find_text_from_right(runtime, text, separator) : find_text(runtime, text, separator);
  const auto piece = [&](std::string_view part) { return runtime.text(part); };
  if (found == std::string_view::npos) {
    return from_right ? runtime.tuple({piece(""), piece(""), self})
                      : runtime.tuple({self, piece(""), piece("")});
  }
  return runtime.tuple(
      {piece(text.substr(0, found)), piece(separator), piece(text.substr(found + separator.size()))});
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.join", arguments, {"iterable"}, 1);
  const Counted<Value> items = items_of(runtime, parameters.at(0));
  for (const Value& item : items) {
    runtime.step();
    if (item.text() == nullptr) runtime.fail(concat("str.join joins str and found a ", type_name(item)));
  }
  return join_values(runtime, self_text(self), items);
}

Value replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.replace", arguments, {"old", "new", "count"}, 2);
  return replace_text(runtime, self_text(self), parameters.string(0), parameters.string(1),
                      parameters.integer(2, -1));
}

Value remove_prefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.removeprefix", arguments, {"prefix"}, 1);
  const std::string_view prefix = parameters.string(0);
  runtime.step_text(prefix.size());
  return self_text(self).starts_with(prefix)
             ? runtime.text(self_text(self).substr(prefix.size()))
             : self;
}

Value remove_suffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.removesuffix", arguments, {"suffix"}, 1);
  const std::string_view suffix = parameters.string(0);
  const std::string_view text = self_text(self);
  runtime.step_text(suffix.size());
  return text.ends_with(suffix) ? runtime.text(text.substr(0, text.size() - suffix.size()))
                                : self;
}

constexpr Method table[] = {{"capitalize", recased<capitalize>}, {"join", join},
                            {"lower", recased<to_lower>},        {"lstrip", stripped<true, false>},
                            {"partition", partition<false>},     {"removeprefix", remove_prefix},
                            {"removesuffix", remove_suffix},     {"replace", replace},
                            {"rpartition", partition<true>},     {"rsplit", split<true>},
                            {"rstrip", stripped<false, true>},   {"split", split<false>},
                            {"splitlines", splitlines},          {"strip", stripped<true, true>},
                            {"swapcase", recased<swap_case>},    {"title", recased<to_title>},
                            {"upper", recased<to_upper>}};

}  // namespace

std::span<const Method> text_methods() noexcept { return table; }

}  // namespace quern::jinja
