// str.format() and str.format_map(): replacement fields and Python's mini-language for what they show.
//
// As in the sandbox of transformers: attributes and items are looked up by the rules of attributes.hpp, so a field reaches
// nothing that an expression could not. Widths end at a million, decimals at a thousand, and a field inside the
// specification of another is the deepest.
//
// Text between fields keeps its marks. What a field shows keeps those of its value, unless the format is not wholly the
// template's own: then it is foreign, since who wrote the format chose it.
#include "str_format.hpp"

#include "attributes.hpp"
#include "number_format.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <charconv>

namespace quern::jinja {

namespace {

/// Where the values of fields come from.
struct FieldValues {
  const Arguments& arguments;
  const Value* mapping = nullptr;  // of format_map
};

class StrFormatter {
 public:
  StrFormatter(Runtime& runtime, const Text& source, const FieldValues& values) : runtime_(runtime), source_(source), values_(values) {}

  /// `format` is the whole of the source or a part of it.
  void write(std::string_view format, TextBuilder& out, int depth) {
    if (depth == 0) runtime_.fail("str.format: a field inside the specification of a field holds another");
    for (std::size_t at = 0; at < format.size();) {
      const std::size_t brace = std::min(format.find_first_of("{}", at), format.size());
      out.append(source_, format.substr(at, brace - at));
      if (brace == format.size()) return;
      runtime_.step();
      if (brace + 1 < format.size() && format[brace + 1] == format[brace]) {
        out.append(source_, format.substr(brace, 1));
        out.leave_out(source_, format.substr(brace + 1, 1));
        at = brace + 2;
        continue;
      }
      if (format[brace] == '}') runtime_.fail("str.format: a single '}' in the format; '}}' writes one");
      const std::size_t end = field_end(format, brace + 1);
      out.leave_out(source_, format.substr(brace, end + 1 - brace));
      write_field(format.substr(brace + 1, end - brace - 1), out, depth);
      at = end + 1;
    }
  }

 private:
  // The '}' that closes the field whose content starts at `at`. A '[' hides braces until its ']', in the name alone.
  std::size_t field_end(std::string_view format, std::size_t at) {
    bool in_name = true;
    for (int open = 1; at < format.size(); ++at) {
      const char c = format[at];
      if (at % block_of_text == 0) runtime_.step_characters(block_of_text);
      if (in_name && c == '[') {
        at = std::min(format.find(']', at), format.size() - 1);
      } else if (in_name && (c == ':' || c == '!')) {
        in_name = false;
      } else if (c == '{') {
        ++open;
      } else if (c == '}' && --open == 0) {
        return at;
      }
    }
    runtime_.fail("str.format: '{' has no '}'; '{{' writes one");
  }

  void write_field(std::string_view field, TextBuilder& out, int depth) {
    std::size_t name_end = 0;
    runtime_.step_characters(field.size());
    while (name_end < field.size() && field[name_end] != ':' && field[name_end] != '!') {
      if (field[name_end] == '[') name_end = std::min(field.find(']', name_end), field.size() - 1);
      ++name_end;
    }
    const std::string_view name = field.substr(0, name_end);
    if (name.find('{') != std::string_view::npos) runtime_.fail("str.format: '{' in the name of a field");
    std::string_view rest = field.substr(name_end);
    char conversion = '\0';
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        runtime_.fail("str.format: '!' is followed by one character, s, r or a, and then ':' or '}'");
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    Value value = find(name);
    if (conversion != '\0') value = convert(value, conversion);
    std::string_view specification = rest.empty() ? rest : rest.substr(1);
    Value expanded;
    bool specification_is_own = true;
    if (specification.find_first_of("{}") != std::string_view::npos) {
      TextBuilder builder(runtime_);
      write(specification, builder, depth - 1);
      expanded = builder.finish();
      specification = expanded.text()->text;
      specification_is_own = expanded.text()->marks.none();
    }
    write_formatted(runtime_, value, specification, source_.marks.none() && specification_is_own, out);
  }

  Value convert(const Value& value, char conversion) {
    TextBuilder builder(runtime_);
    if (conversion == 's') {
      print(runtime_, value, builder);
    } else if (conversion == 'r') {
      print_repr(runtime_, value, builder);
    } else if (conversion == 'a') {
      runtime_.unsupported("str.format: the conversion '!a' is not offered");
    } else {
      runtime_.fail("str.format: there are the conversions !s, !r and !a");
    }
    return builder.finish();
  }

  // "0", "name", "" for the next one, and then ".attribute" and "[item]".
  Value find(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, first_end), first_end == name.size());
    for (std::size_t at = first_end; at < name.size();) {
      const bool attribute = name[at] == '.';
      if (!attribute && name[at] != '[') runtime_.fail("str.format: only '.' or '[' may follow ']'");
      const std::size_t end = std::min(attribute ? name.find_first_of(".[", at + 1) : name.find(']', at), name.size());
      if (!attribute && end == name.size()) runtime_.fail("str.format: '[' has no ']'");
      const std::string_view part = name.substr(at + 1, end - at - 1);
      if (part.empty()) runtime_.fail("str.format: an attribute or item without a name");
      value = attribute ? attribute_of(value, part) : item_of(value, part);
      at = attribute ? end : end + 1;
    }
    return value;
  }

  Value attribute_of(const Value& value, std::string_view name) {
    if (name.starts_with("__")) runtime_.unsupported("attribute " + quote(name) + " is not data, and nothing else can be reached");
    return get_attribute(runtime_, value, name);
  }

  Value item_of(const Value& value, std::string_view key) {
    if (const auto index = number_in(key)) return get_item(runtime_, value, static_cast<std::int64_t>(*index));
    return get_item(runtime_, value, runtime_.text(key));
  }

  // `alone`: no attribute or item follows; Python's Formatter takes a number for one of its kind only then.
  Value first(std::string_view name, bool alone) {
    const std::optional<std::size_t> number = number_in(name);
    if (number || name.empty()) {
      const bool automatic = !number;
      if (automatic || alone) {
        if (numbering_ != Numbering::none && (numbering_ == Numbering::automatic) != automatic)
          runtime_.fail("str.format: fields with numbers and fields without are in one format");
        numbering_ = automatic ? Numbering::automatic : Numbering::given;
      }
      const std::size_t index = automatic ? next_++ : *number;
      if (values_.mapping != nullptr) runtime_.fail("str.format_map: the fields of the format have no names");
      if (index >= values_.arguments.positional.size())
        runtime_.fail(concat("str.format: field ", index, " was asked for, but ", values_.arguments.positional.size(),
                             " values are given without a name"));
      return values_.arguments.positional[index];
    }
    if (values_.mapping != nullptr) {
      const Value key = runtime_.text(name);
      if (const Value* found = values_.mapping->mapping()->find(runtime_, key)) return *found;
    } else {
      for (const auto& argument : values_.arguments.keyword) {
        runtime_.step_text(1 + name.size());
        if (argument.text() == name) return argument.value;
      }
    }
    runtime_.fail("str.format: there is no value named " + quote(name));
  }

  // All digits, and small enough to be an index of anything.
  static std::optional<std::size_t> number_in(std::string_view text) {
    constexpr std::size_t most_digits = 9;
    std::size_t number = 0;
    if (text.empty() || text.size() > most_digits) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
  }

  enum class Numbering : std::uint8_t { none, automatic, given };

  Runtime& runtime_;
  const Text& source_;
  const FieldValues& values_;
  Numbering numbering_ = Numbering::none;
  std::size_t next_ = 0;
};

Value run(Runtime& runtime, const Value& self, const FieldValues& values) {
  if (self.text()->markup) runtime.unsupported("formatting a string marked safe is not offered");
  TextBuilder out(runtime);
  constexpr int levels = 2;  // the format, and the specifications in it
  StrFormatter(runtime, *self.text(), values).write(self.text()->text, out, levels);
  return out.finish();
}

}  // namespace

Value str_format(Runtime& runtime, const Value& self, const Arguments& arguments) { return run(runtime, self, {arguments, nullptr}); }

Value str_format_map(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "str.format_map", arguments, {"mapping"}, 1);
  if (parameters.at(0).mapping() == nullptr) runtime.fail(concat("str.format_map needs a dict and got a ", type_name(parameters.at(0))));
  return run(runtime, self, {arguments, &parameters.at(0)});
}

}  // namespace quern::jinja
