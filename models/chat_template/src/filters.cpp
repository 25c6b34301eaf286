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

template <void (*convert)(TextBuilder&, std::string_view)>
Value recased(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "this filter", arguments, {});
  Value holder;
  return recase(runtime, input_text(runtime, input, holder), convert);
}

// A capital after whitespace and after - ( { [ <, everything else small.
void title_words(TextBuilder& out, std::string_view text) {
  std::size_t word = 0;
  const auto flush = [&](std::size_t end) {
    if (word == end) return;
    const std::size_t first = word + character_at(text, word).size();
    to_upper(out, text.substr(word, first - word));
    to_lower(out, text.substr(first, end - first));
  };
  walk(out.runtime(), text, [&](std::size_t start, std::size_t end, char32_t c) {
    if (!is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') return true;
    flush(start);
    out.append(text.substr(start, end - start));
    word = end;
    return true;
  });
  flush(text.size());
}

Value trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'trim'", arguments, {"chars"});
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  if (parameters.find(0) == nullptr || parameters.at(0).is_none()) {
    return runtime.piece(text, strip_left(runtime, strip_right(runtime, text.text)));
  }
  const Text& characters = parameters.text(0);
  return runtime.piece_by(text, strip_characters(runtime, text.text, characters.text, true, true), characters);
}

Value replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'replace'", arguments, {"old", "new", "count"}, 2);
  const Value text = to_text(runtime, input);
  const Value old_part = to_text(runtime, parameters.at(0));
  const Value new_part = to_text(runtime, parameters.at(1));
  const bool all = parameters.find(2) == nullptr || parameters.at(2).is_none();
  return replace_text(runtime, *text.text(), *old_part.text(), *new_part.text(), all ? -1 : parameters.integer(2, -1));
}

Value string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'string'", arguments, {});
  return to_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'safe'", arguments, {});
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  return runtime.marked_text(text.text, text.marks, true);
}

Value escape(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'escape'", arguments, {});
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  if (text.markup) return holder;
  TextBuilder out(runtime);
  escape_html(out, text);
  return out.finish(true);
}

Value indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'indent'", arguments, {"width", "first", "blank"});
  const Text* text = input.text();
  if (text == nullptr) runtime.fail(concat("filter 'indent' needs a str and got a ", type_name(input)));
  TextBuilder spaces(runtime);
  if (parameters.find(0) != nullptr && parameters.at(0).text() != nullptr) {
    spaces.append(parameters.text(0));
  } else {
    spaces.append_own(static_cast<std::uint64_t>(std::max<std::int64_t>(parameters.integer(0, 4), 0)), " ");
  }
  const Value held = spaces.finish();
  const Text& indention = *held.text();
  const bool blank = parameters.truth(2, false);
  TextBuilder out(runtime);
  if (parameters.truth(1, false)) out.append(indention);
  TextBuilder closed(runtime);
  bool first_line = true;
  const auto add = [&](std::string_view line) {
    if (!first_line) {
      if (text->marks.none()) {
        out.append_own("\n");
      } else {
        out.append("\n");
      }
      if (blank || !line.empty()) out.append(indention);
    }
    // The line in the text itself, which lacks only the line break at the end of `closed`.
    const auto begin = static_cast<std::size_t>(line.data() - closed.view().data());
    out.append(*text, std::string_view(text->text).substr(begin, line.size()));
    first_line = false;
  };
  closed.reserve(text->text.size() + 1);
  closed.append(text->text);
  closed.append("\n");
  for_each_line(runtime, closed.view(), false, add);
  return out.finish();
}

Value center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'center'", arguments, {"width"});
  Value holder;
  const Value space = runtime.own_text(" ");
  return center_text(runtime, input_text(runtime, input, holder), parameters.integer(0, 80), *space.text());
}

Value format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.keyword.empty() && !arguments.positional.empty()) {
    runtime.fail("filter 'format' takes positional or named arguments, not both");
  }
  Value holder;
  const Text& text = input_text(runtime, input, holder);
  if (arguments.keyword.empty()) {
    runtime.step(arguments.positional.size());
    return format_text(runtime, text, runtime.tuple(Counted<Value>(arguments.positional)));
  }
  Entries named(runtime);
  for (const auto& [name, value] : arguments.keyword) {
    runtime.step();
    named.emplace_back(name, value);
  }
  return format_text(runtime, text, runtime.mapping(std::move(named)));
}

Value tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'tojson'", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = parameters.truth(0, false);
  style.sort_keys = parameters.truth(3, false);
  if (const Value* width = parameters.find(1); width != nullptr && !width->is_none()) {
    style.item_separator = ",";
    if (width->text() != nullptr) {
      style.indent = *width;
    } else {
      TextBuilder spaces(runtime);
      spaces.append(static_cast<std::uint64_t>(std::max<std::int64_t>(parameters.integer(1, 0), 0)), " ");
      style.indent = spaces.finish();
    }
  }
  if (const Value* separators = parameters.find(2); separators != nullptr && !separators->is_none()) {
    const Sequence* pair = separators->sequence();
    const bool is_pair = pair != nullptr && pair->items.size() == 2 && pair->items[0].text() != nullptr && pair->items[1].text() != nullptr;
    if (!is_pair) runtime.fail("tojson: separators are two str, one between items and one behind keys");
    style.item_separator = pair->items[0].text()->text;
    style.key_separator = pair->items[1].text()->text;
  }
  return to_json(runtime, input, style);
}

constexpr Filter text_filter_table[] = {{"capitalize", recased<capitalize>},
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

std::span<const Filter> text_filters() noexcept { return text_filter_table; }

}  // namespace quern::jinja
