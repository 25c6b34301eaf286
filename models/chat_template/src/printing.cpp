// str() and repr().
#include "printing.hpp"

#include "ast.hpp"
#include "loop_state.hpp"
#include "numbers.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

namespace quern::jinja {

namespace {

std::string range_text(const Sequence& range) {
  std::string text = concat("range(", range.start, ", ", range.stop);
  if (range.step != 1) text += concat(", ", range.step);
  return text + ")";
}

void print_items(Runtime& runtime, const Sequence& sequence, TextBuilder& out) {
  require_stack(stack_for_a_level, "a nested value of the chat template");
  constexpr std::string_view opens[] = {"[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
  constexpr std::string_view closes[] = {"]", ")", "", "])", "])", "])"};
  const auto kind = static_cast<std::size_t>(sequence.kind);
  out.append(opens[kind]);
  for (std::size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) out.append(", ");
    print_repr(runtime, sequence.items[i], out);
  }
  if (sequence.kind == SequenceKind::tuple && sequence.items.size() == 1) out.append(",");
  out.append(closes[kind]);
}

void print_mapping(Runtime& runtime, const Mapping& mapping, TextBuilder& out) {
  require_stack(stack_for_a_level, "a nested value of the chat template");
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : mapping.entries) {
    if (!first) out.append(", ");
    first = false;
    print_repr(runtime, key, out);
    out.append(": ");
    print_repr(runtime, value, out);
  }
  out.append("}");
}

void print_other(Runtime& runtime, const Value& value, TextBuilder& out) {
  if (value.is_none()) return out.append("None");
  if (const auto* boolean = value.get_if<bool>()) return out.append(*boolean ? "True" : "False");
  if (const auto* integer = value.integer()) return out.append(std::to_string(*integer));
  if (const auto* real = value.get_if<double>()) return out.append(format_float(*real));
  if (LoopState* loop = value.loop()) { return out.append(concat("<LoopContext ", loop->index0() + 1, "/", loop->length(runtime), ">")); }
  const Callable* callable = value.callable();
  const auto* macro = callable == nullptr ? nullptr : std::get_if<MacroClosure>(&callable->target);
  if (macro != nullptr) return out.append(concat("<Macro ", quote(macro->definition->name), ">"));
  runtime.unsupported(concat("a ", type_name(value), " has no text; '|list' makes a list of a generator"));
}

}  // namespace

void print_repr(Runtime& runtime, const Value& value, TextBuilder& out) {
  runtime.step();
  if (value.is_undefined()) return out.append("Undefined");
  if (const Text* text = value.text()) {
    if (text->markup) runtime.unsupported("the repr of a string marked safe is not offered");
    return append_quoted(out, text->text);
  }
  if (const Sequence* sequence = value.sequence()) {
    if (sequence->kind == SequenceKind::range) return out.append(range_text(*sequence));
    return print_items(runtime, *sequence, out);
  }
  if (const Mapping* mapping = value.mapping()) return print_mapping(runtime, *mapping, out);
  print_other(runtime, value, out);
}

void print(Runtime& runtime, const Value& value, TextBuilder& out) {
  if (value.is_undefined()) return;
  if (const Text* text = value.text()) return out.append(*text);
  print_repr(runtime, value, out);
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.text() != nullptr) return value;
  TextBuilder out(runtime);
  print(runtime, value, out);
  return out.finish();
}

void escape_html(TextBuilder& out, const Text& source) {
  const std::string_view text = source.text;
  std::size_t copied = 0;  // runs of plain characters are appended whole
  walk(out.runtime(), text, [&](std::size_t start, std::size_t end, char32_t c) {
    const std::string_view escape = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : "";
    if (escape.empty()) return true;
    out.append(source, text.substr(copied, start - copied));
    out.append(escape);
    copied = end;
    return true;
  });
  out.append(source, text.substr(copied));
}

}  // namespace quern::jinja
