// "%s and %d" % values, as Python formats it.
#include "numbers.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::jinja {

namespace {

struct Directive {
  bool left = false, sign = false, space = false, zero = false, alternate = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 's';
};

class Formatter {
 public:
  Formatter(Runtime& runtime, const Text& format, const Value& right)
      : runtime_(runtime), source_(format), format_(format.text), right_(right), out_(runtime) {
    const Sequence* sequence = right.sequence();
    tuple_ = sequence != nullptr && sequence->kind == SequenceKind::tuple ? sequence : nullptr;
  }

  Value run() {
    while (at_ < format_.size()) {
      const std::size_t percent = std::min(find_text(runtime_, format_, "%", at_), format_.size());
      out_.append(source_, format_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ < format_.size()) {
        ++at_;
        write_directive();
      }
    }
    const std::size_t given = tuple_ != nullptr ? tuple_->items.size() : 1;
    if (taken_ < given && !may_go_unused()) runtime_.fail("'%': the format has fewer places than there are values");
    return out_.finish();
  }

 private:
  // Python forgives a value that it could index by key.
  bool may_go_unused() const {
    const Sequence* sequence = right_.sequence();
    return right_.mapping() != nullptr || right_.is_undefined() ||
           (sequence != nullptr && (sequence->kind == SequenceKind::list || sequence->kind == SequenceKind::range));
  }

  char next() {
    if (at_ >= format_.size()) runtime_.fail("'%': the format ends inside a directive");
    runtime_.step();
    return format_[at_++];
  }

  const Value& take() {
    if (keyed_ != nullptr) return *keyed_;
    if (tuple_ == nullptr && taken_ == 0) {
      ++taken_;
      return right_;
    }
    if (tuple_ == nullptr || taken_ >= tuple_->items.size()) runtime_.fail("'%': the format has more places than there are values");
    return tuple_->items[taken_++];
  }

  // A number in the format, or '*' for one among the values.
  std::int64_t read_count(char& c) {
    constexpr std::int64_t largest = 1'000'000;
    std::int64_t count = 0;
    if (c == '*') {
      const Value& value = take();
      if (value.integer() == nullptr) runtime_.fail("'%': '*' needs an int");
      count = *value.integer();
      c = next();
    } else {
      for (; c >= '0' && c <= '9'; c = next()) {
        count = count * 10 + (c - '0');
        if (count > largest) break;
      }
    }
    if (count > largest || count < -largest) runtime_.unsupported("'%': a width or precision above 1000000 is not offered");
    return count;
  }

  void read_key() {
    const std::size_t start = at_;
    for (int open = 1; open > 0;) {
      const char c = next();
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    const Mapping* mapping = right_.mapping();
    if (mapping == nullptr) runtime_.fail("'%': a format that names values needs a dict");
    const Value key = runtime_.text(format_.substr(start, at_ - 1 - start));
    keyed_ = mapping->find(runtime_, key);
    if (keyed_ == nullptr) runtime_.fail("'%': the dict has no key " + quote(key.text()->text));
  }

  void write_directive() {
    runtime_.step();
    Directive directive;
    keyed_ = nullptr;
    char c = next();
    if (c == '(') {
      read_key();
      c = next();
    }
    for (bool flag = true; flag;) {
      switch (c) {
        case '-': directive.left = true; break;
        case '+': directive.sign = true; break;
        case ' ': directive.space = true; break;
        case '0': directive.zero = true; break;
        case '#': directive.alternate = true; break;
        default: flag = false;
      }
      if (flag) c = next();
    }
    directive.width = read_count(c);
    if (directive.width < 0) {
      directive.left = true;
      directive.width = -directive.width;
    }
    if (c == '.') {
      c = next();
      directive.precision = std::max<std::int64_t>(read_count(c), 0);
    }
    if (c == 'h' || c == 'l' || c == 'L') c = next();
    directive.type = c;
    if (c == '%') return out_.append(source_, format_.substr(at_ - 1, 1));
    write_value(directive, take());
  }

  void write_value(const Directive& directive, const Value& value) {
    switch (directive.type) {
      case 's':
      case 'r': return write_text(directive, value);
      case 'c': return write_character(directive, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return write_integer(directive, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return write_float(directive, value);
      case 'a': runtime_.unsupported("'%': the directive '%a' is not offered");
      default: runtime_.fail(concat("'%': there is no directive ", quote(character_at(format_, at_ - 1)), " behind '%'"));
    }
  }

  void write_text(const Directive& directive, const Value& value) {
    TextBuilder builder(runtime_);
    if (directive.type == 's') {
      print(runtime_, value, builder);
    } else {
      print_repr(runtime_, value, builder);
    }
    const Value text = builder.finish();
    std::string_view shown = text.text()->text;
    if (directive.precision >= 0) { shown = shown.substr(0, offset_of_code_point(shown, static_cast<std::size_t>(directive.precision))); }
    pad(directive, *text.text(), shown);
  }

  void write_character(const Directive& directive, const Value& value) {
    std::string shown;
    const Text* text = value.text();
    if (text != nullptr && !text->text.empty() && character_at(text->text, 0).size() == text->text.size()) {
      return pad(directive, *text, text->text);
    }
    if (const auto* code = value.integer(); code != nullptr && *code >= 0 && *code <= 0x10ffff && !(*code >= 0xd800 && *code < 0xe000)) {
      append_code_point(shown, static_cast<char32_t>(*code));
    } else {
      runtime_.fail("'%': '%c' needs one character");
    }
    pad(directive, "", shown, false);
  }

  Number number(const Directive& directive, const Value& value) {
    if (value.is_undefined()) runtime_.fail_undefined(value);
    const auto found = as_number(value);
    if (!found) runtime_.fail(concat("'%': '%", directive.type, "' needs a number and got a ", type_name(value)));
    return *found;
  }

  void write_integer(const Directive& directive, const Value& value) {
    const Number found = number(directive, value);
    const int base = directive.type == 'x' || directive.type == 'X' ? 16 : directive.type == 'o' ? 8 : 10;
    std::int64_t integer = found.integer;
    if (found.real) {
      if (base != 10) runtime_.fail("'%': hexadecimal and octal need an int");
      if (!(std::fabs(found.value) < 9e18)) runtime_.unsupported("'%': the float is beyond a 64-bit integer");
      integer = static_cast<std::int64_t>(found.value);
    }
    char buffer[72];
    const std::uint64_t magnitude = integer < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(integer)
                                                : static_cast<std::uint64_t>(integer);
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
    std::string_view digits(buffer, static_cast<std::size_t>(result.ptr - buffer));
    std::string prefix = sign_of(directive, integer < 0);
    if (directive.alternate && base == 16) prefix += "0x";
    if (directive.alternate && base == 8) prefix += "0o";
    if (directive.type == 'X') {
      std::transform(buffer, result.ptr, buffer, upper);
      std::transform(prefix.begin(), prefix.end(), prefix.begin(), upper);
    }
    const std::int64_t zeros = directive.precision - static_cast<std::int64_t>(digits.size());
    pad(directive, prefix, digits, directive.zero, std::max<std::int64_t>(zeros, 0));
  }

  void write_float(const Directive& directive, const Value& value) {
    const double real = number(directive, value).value;
    if (directive.precision > 1000) runtime_.unsupported("'%': more than 1000 decimals are not offered");
    if (directive.alternate) runtime_.unsupported("'%': '#' is not offered for floats");
    const int precision = directive.precision < 0 ? 6 : static_cast<int>(directive.precision);
    const double magnitude = std::fabs(real);
    const char lower = static_cast<char>(directive.type | 0x20);
    runtime_.step_characters(static_cast<std::uint64_t>(precision));
    std::string digits;
    if (lower == 'f') {
      digits = format_fixed(magnitude, precision);
    } else if (lower == 'e') {
      digits = format_scientific(magnitude, precision);
    } else {
      digits = format_general(magnitude, precision);
    }
    if (directive.type != lower) std::transform(digits.begin(), digits.end(), digits.begin(), upper);
    pad(directive, sign_of(directive, std::signbit(real) && !std::isnan(real)), digits, directive.zero);
  }

  static std::string sign_of(const Directive& directive, bool negative) {
    return negative ? "-" : directive.sign ? "+" : directive.space ? " " : "";
  }

  static char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c; }

  // Writes bytes of a text, made as wide as the directive asks.
  void pad(const Directive& directive, const Text& text, std::string_view part) {
    runtime_.step_text(part.size());
    const auto size = static_cast<std::int64_t>(count_code_points(part));
    const auto missing = static_cast<std::uint64_t>(std::max<std::int64_t>(directive.width - size, 0));
    if (!directive.left) out_.append(missing, " ");
    out_.append(text, part);
    if (directive.left) out_.append(missing, " ");
  }

  // Writes prefix, `precision_zeros` zeros and body, made as wide as the directive asks.
  void pad(const Directive& directive, std::string_view prefix, std::string_view body, bool zeros, std::int64_t precision_zeros = 0) {
    runtime_.step_text(body.size());
    const auto size = static_cast<std::int64_t>(count_code_points(prefix) + count_code_points(body)) + precision_zeros;
    const auto missing = static_cast<std::uint64_t>(std::max<std::int64_t>(directive.width - size, 0));
    const bool fill_zeros = zeros && !directive.left;
    if (!fill_zeros && !directive.left) out_.append(missing, " ");
    out_.append(prefix);
    if (fill_zeros) out_.append(missing, "0");
    out_.append(static_cast<std::uint64_t>(precision_zeros), "0");
    out_.append(body);
    if (directive.left) out_.append(missing, " ");
  }

  Runtime& runtime_;
  const Text& source_;
  std::string_view format_;
  const Value& right_;
  TextBuilder out_;
  const Sequence* tuple_ = nullptr;
  const Value* keyed_ = nullptr;
  std::size_t at_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace

Value format_text(Runtime& runtime, const Text& format, const Value& right) {
  if (format.markup) runtime.unsupported("formatting a string marked safe is not offered");
  return Formatter(runtime, format, right).run();
}

}  // namespace quern::jinja
