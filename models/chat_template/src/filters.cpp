// Finds filters and tests by name, and the text filters.
#include "library.hpp"

#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <algorithm>

namespace quern::jinja {

const Filter* find_filter(std::string_view name) noexcept {
  for (const auto& table : {text_filters(), number_filters(), sequence_filters(), selection_filters()}) {
    for (const Filter& filter : table) {
      if (filter.name == name) return &filter;
    }
  }
  return nullptr;
}

namespace {

// Most text filters take str(input).
const Text& input_text(Runtime& runtime, const Value& input, Value& holder) {
  holder = to_text(runtime, input);
  return *holder.text();
}

template <std::string (*convert)(std::string_view)>
Value recased(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "this filter", arguments, {});
  Value holder;
  return recase(runtime, input_text(runtime, input, holder).text, convert);
}

// A capital after whitespace and after - ( { [ <, everything else small.
std::string title_words(std::string_view text) {
  std::string out;
  std::size_t word = 0;
  const auto flush = [&](std::size_t end) {
    if (word == end) return;
    std::size_t first = word;
    next_code_point(text, first);
    out += to_upper(text.substr(word, first - word));
    out += to_lower(text.substr(first, end - first));
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const char32_t c = next_code_point(text, at);
    if (!is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    flush(start);
    out += text.substr(start, at - start);
    word = at;
  }
  flush(text.size());
  return out;
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'trim'", arguments, {"chars"});
  Value holder;
  const std::string_view text = input_text(runtime, input, holder).text;
  runtime.step_text(text.size());
  if (parameters.find(0) == nullptr || parameters.at(0).is_none()) {
    return runtime.text(std::string(strip_left(strip_right(text))));
  }
  const std::string_view characters = parameters.string(0);
  runtime.step((text.size() / 64 + 1) * (characters.size() / 8 + 1));
  return runtime.text(std::string(strip_characters(text, characters, true, true)));
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'replace'", arguments, {"old", "new", "count"}, 2);
  const Value text = to_text(runtime, input);
  const Value old_part = to_text(runtime, parameters.at(0));
  const Value new_part = to_text(runtime, parameters.at(1));
  const bool all = parameters.find(2) == nullptr || parameters.at(2).is_none();
  return replace_text(runtime, text.text()->text, old_part.text()->text, new_part.text()->text,
                      all ? -1 : parameters.integer(2, -1));
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'string'", arguments, {});
  return to_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'safe'", arguments, {});
  Value holder;
  return runtime.text(input_text(runtime, input, holder).text, true);
}

Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'escape'", arguments, {});
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  if (text.markup) return holder;
  runtime.step_characters(text.text.size());
  const Charge room(runtime, 5 * text.text.size());  // the longest escape of one byte
  return runtime.text(escape_html(text.text), true);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'indent'", arguments, {"width", "first", "blank"});
  const Text* text = input.text();
  if (text == nullptr) runtime.fail(concat("filter 'indent' needs a str and got a ", type_name(input)));
  TextBuilder spaces(runtime);
  if (parameters.find(0) != nullptr && parameters.at(0).text() != nullptr) {
    spaces.append(parameters.string(0));
  } else {
    for (std::int64_t i = parameters.integer(0, 4); i > 0; --i) {
      runtime.step();
      spaces.append(" ");
    }
  }
  const Value held = spaces.finish();
  const std::string_view indention = held.text()->text;
  const bool blank = parameters.truth(2, false);
  runtime.step_characters(text->text.size());
  const Charge room(runtime, text->text.size() + 1);
  const std::string closed = text->text + "\n";
  TextBuilder out(runtime);
  if (parameters.truth(1, false)) out.append(indention);
  bool first_line = true;
  for (const std::string_view line : split_lines(closed, false)) {
    runtime.step();
    if (!first_line) {
      out.append("\n");
      if (blank || !line.empty()) out.append(indention);
    }
    out.append(line);
    first_line = false;
  }
  return out.finish();
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'center'", arguments, {"width"});
  Value holder;
  return center_text(runtime, input_text(runtime, input, holder).text, parameters.integer(0, 80), " ");
}

Value format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.keyword.empty() && !arguments.positional.empty()) {
    runtime.fail("filter 'format' takes positional or named arguments, not both");
  }
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  if (arguments.keyword.empty()) return format_text(runtime, text, runtime.tuple(arguments.positional));
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.keyword) named.emplace_back(runtime.text(name), value);
  return format_text(runtime, text, runtime.mapping(std::move(named)));
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'tojson'", arguments,
                              {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = parameters.truth(0, false);
  style.sort_keys = parameters.truth(3, false);
  if (const Value* width = parameters.find(1); width != nullptr && !width->is_none()) {
    style.item_separator = ",";
    if (width->text() != nullptr) {
      style.indent = width->text()->text;
    } else {
      const std::int64_t spaces = std::max<std::int64_t>(parameters.integer(1, 0), 0);
      const Charge room(runtime, static_cast<std::uint64_t>(spaces));
      style.indent = std::string(static_cast<std::size_t>(spaces), ' ');
    }
  }
  if (const Value* separators = parameters.find(2); separators != nullptr && !separators->is_none()) {
    const Sequence* pair = separators->sequence();
    const bool is_pair = pair != nullptr && pair->items.size() == 2 && pair->items[0].text() != nullptr &&
                         pair->items[1].text() != nullptr;
    if (!is_pair) runtime.fail("tojson: separators are two str, one between items and one behind keys");
    style.item_separator = pair->items[0].text()->text;
    style.key_separator = pair->items[1].text()->text;
  }
  return to_json(runtime, input, style);
}

constexpr Filter table[] = {{"capitalize", recased<capitalize>},
                            {"center", center},
                            {"e", escape},
                            {"escape", escape},
                            {"format", format},
                            {"indent", indent},
                            {"lower", recased<to_lower>},
                            {"replace", replace},
                            {"safe", safe},
                            {"string", string},
                            {"title", recased<title_words>},
                            {"tojson", tojson},
                            {"trim", trim},
                            {"upper", recased<to_upper>}};

}  // namespace

std::span<const Filter> text_filters() noexcept { return table; }

}  // namespace quern::jinja
