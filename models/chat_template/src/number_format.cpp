// format() of str, int and float. What Python refuses is refused here; a form that is not offered is named.
#include "number_format.hpp"

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

struct Specification {
  std::string_view fill = " ";
  char align = '\0';  // '<', '>', '^' or '='; none given: '\0'
  char sign = '-';
  bool no_negative_zero = false, alternate = false, zero = false, sign_given = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char grouping = '\0';
  char type = '\0';
};

char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c; }

bool is_align(char c) noexcept { return c == '<' || c == '>' || c == '^' || c == '='; }

std::int64_t read_number(Runtime& runtime, std::string_view& text, std::int64_t most, const char* what) {
  std::int64_t number = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    number = number * 10 + (text.front() - '0');
    if (number > most) runtime.unsupported(concat("format: a ", what, " above ", most, " is not offered"));
    text.remove_prefix(1);
  }
  return number;
}

bool skip(std::string_view& text, char c) noexcept {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

Specification parse(Runtime& runtime, std::string_view text) {
  constexpr std::int64_t widest = 1'000'000, most_precise = 1'000'000;
  Specification made;
  std::size_t fill_end = 0;
  if (!text.empty()) next_code_point(text, fill_end);
  const bool fill_given = fill_end < text.size() && is_align(text[fill_end]);
  if (fill_given) {
    made.fill = text.substr(0, fill_end);
    made.align = text[fill_end];
    text.remove_prefix(fill_end + 1);
  } else if (!text.empty() && is_align(text.front())) {
    made.align = text.front();
    text.remove_prefix(1);
  }
  if (text.starts_with('+') || text.starts_with('-') || text.starts_with(' ')) {
    made.sign = text.front();
    made.sign_given = true;
    text.remove_prefix(1);
  }
  made.no_negative_zero = skip(text, 'z');
  made.alternate = skip(text, '#');
  if (!fill_given && skip(text, '0')) {
    made.zero = true;
    made.fill = "0";
  }
  made.width = read_number(runtime, text, widest, "width");
  if (text.starts_with(',') || text.starts_with('_')) {
    made.grouping = text.front();
    text.remove_prefix(1);
  }
  if (skip(text, '.')) {
    if (text.empty() || text.front() < '0' || text.front() > '9') runtime.fail("format: '.' needs a precision");
    made.precision = read_number(runtime, text, most_precise, "precision");
  }
  if (text.size() > 1) runtime.fail("format: the specification has more than its type at the end");
  if (!text.empty()) made.type = text.front();
  return made;
}

/// `prefix` (sign and base) and `body` in the width, with the fill where `align` says. `source` is the text of which
/// `body` is a part; null for one that is foreign.
void write_padded(Runtime& runtime, const Specification& spec, std::string_view prefix, std::string_view body, char align, TextBuilder& out,
                  const Text* source = nullptr) {
  runtime.step_text(body.size());
  const auto size = static_cast<std::int64_t>(count_code_points(prefix) + count_code_points(body));
  const std::int64_t missing = std::max<std::int64_t>(spec.width - size, 0);
  const std::int64_t left = align == '<' || align == '=' ? 0 : align == '^' ? missing / 2 : missing;
  const auto put_fill = [&](std::int64_t count) { out.append(static_cast<std::uint64_t>(count), spec.fill); };
  put_fill(left);
  out.append(prefix);
  if (align == '=') put_fill(missing);
  if (source != nullptr) {
    out.append(*source, body);
  } else {
    out.append(body);
  }
  if (align != '=') put_fill(missing - left);
}

void write_text(Runtime& runtime, const Specification& spec, const Text& text, bool own_specification, TextBuilder& out) {
  if (spec.type != '\0' && spec.type != 's') runtime.fail(concat("format: there is no type ", quote({&spec.type, 1}), " for a str"));
  if (spec.sign_given) runtime.fail("format: a sign is not for a str");
  if (spec.no_negative_zero || spec.alternate) runtime.fail("format: 'z' and '#' are not for a str");
  if (spec.grouping != '\0') runtime.fail("format: ',' and '_' are not for a str");
  if (spec.align == '=') runtime.fail("format: the alignment '=' is not for a str");
  std::string_view shown = text.text;
  if (spec.precision >= 0) {
    runtime.step_text(shown.size());
    shown = shown.substr(0, offset_of_code_point(shown, static_cast<std::size_t>(spec.precision)));
  }
  write_padded(runtime, spec, "", shown, spec.align == '\0' ? '<' : spec.align, out, own_specification ? &text : nullptr);
}

/// The digits with a separator every `group` of them, and zeros in front so that they have `least` characters; never
/// a separator in front.
std::string grouped(std::string_view digits, char separator, std::size_t group, std::size_t least) {
  std::string reversed;
  std::size_t taken = 0;
  for (std::size_t i = digits.size(); i > 0 || reversed.size() < least; ++taken) {
    if (separator != '\0' && taken > 0 && taken % group == 0) reversed += separator;
    reversed += i > 0 ? digits[--i] : '0';
  }
  std::ranges::reverse(reversed);
  return reversed;
}

char align_of_number(const Specification& spec) noexcept { return spec.align != '\0' ? spec.align : spec.zero ? '=' : '>'; }

/// Digits before `tail` (a fraction, an exponent, a percent sign) get separators and the zeros of the flag '0'.
void write_number(Runtime& runtime, const Specification& spec, const std::string& prefix, std::string_view digits, std::string_view tail,
                  std::size_t group, TextBuilder& out) {
  const char align = align_of_number(spec);
  const bool zeros = align == '=' && spec.fill == "0";
  std::size_t least = 0;
  if (zeros && spec.width > static_cast<std::int64_t>(prefix.size() + tail.size()))
    least = static_cast<std::size_t>(spec.width) - prefix.size() - tail.size();
  const Charge room(runtime, 2 * (least + digits.size()) + tail.size());
  runtime.step_characters(least + digits.size());
  std::string body = spec.grouping != '\0' || zeros ? grouped(digits, spec.grouping, group, least) : std::string(digits);
  body += tail;
  write_padded(runtime, spec, prefix, body, align, out);
}

std::string sign_of(const Specification& spec, bool negative) { return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign); }

void write_integer(Runtime& runtime, const Specification& spec, std::int64_t value, TextBuilder& out) {
  if (spec.precision >= 0) runtime.fail("format: a precision is not for an int");
  if (spec.no_negative_zero) runtime.fail("format: 'z' is not for an int");
  if (spec.type == 'c') {
    if (spec.sign_given || spec.alternate) runtime.fail("format: '#' and a sign are not for the type 'c'");
    if (spec.grouping != '\0') runtime.fail("format: ',' and '_' are not for the type 'c'");
    if (value < 0 || value > 0x10ffff) runtime.fail("format: the type 'c' needs an int from 0 to 1114111");
    if (value >= 0xd800 && value < 0xe000) runtime.unsupported("format: a surrogate is not offered");
    std::string character;
    append_code_point(character, static_cast<char32_t>(value));
    return write_padded(runtime, spec, "", character, align_of_number(spec), out);
  }
  const char lower = static_cast<char>(spec.type | 0x20);
  const int base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : lower == 'x' ? 16 : 10;
  if (spec.grouping == ',' && base != 10) runtime.fail("format: ',' is not for binary, octal and hexadecimal");
  if (spec.grouping != '\0' && spec.type == 'n') runtime.fail("format: ',' and '_' are not for the type 'n'");
  const std::uint64_t magnitude = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  char buffer[72];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
  std::string digits(buffer, result.ptr), prefix = sign_of(spec, value < 0);
  if (spec.alternate && base != 10) prefix += std::string("0") + spec.type;
  if (spec.type == 'X') std::ranges::transform(digits, digits.begin(), upper);
  write_number(runtime, spec, prefix, digits, "", base == 10 ? 3 : 4, out);
}

/// The type that is left out: as %g with a digit behind the point, or without precision as repr().
std::string plain_float(double magnitude, std::int64_t precision) {
  if (!std::isfinite(magnitude) || precision < 0) return format_float(magnitude);
  const int digits = static_cast<int>(std::max<std::int64_t>(precision, 1));
  const std::string scientific = format_scientific(magnitude, digits - 1);
  const int point = magnitude == 0 ? 1 : std::stoi(scientific.substr(scientific.find('e') + 1)) + 1;
  if (point > -4 && point <= digits - 1) {
    std::string general = format_general(magnitude, digits);
    if (general.find('.') == std::string::npos) general += ".0";
    return general;
  }
  std::string mantissa = scientific.substr(0, scientific.find('e'));
  if (mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + scientific.substr(scientific.find('e'));
}

void write_float(Runtime& runtime, const Specification& spec, double value, TextBuilder& out) {
  constexpr std::int64_t most_decimals = 1000;
  if (spec.precision > most_decimals) runtime.unsupported("format: more than 1000 decimals are not offered");
  if (spec.alternate) runtime.unsupported("format: '#' is not offered for floats");
  if (spec.grouping != '\0' && spec.type == 'n') runtime.fail("format: ',' and '_' are not for the type 'n'");
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const double magnitude = std::fabs(value);
  std::string text;
  switch (spec.type) {
    case '\0': text = plain_float(magnitude, spec.precision); break;
    case 'f':
    case 'F': text = format_fixed(magnitude, precision); break;
    case 'e':
    case 'E': text = format_scientific(magnitude, precision); break;
    case 'g':
    case 'G':
    case 'n': text = format_general(magnitude, std::max(precision, 1)); break;
    case '%': text = format_fixed(magnitude * 100, precision) + "%"; break;
    default: runtime.fail(concat("format: there is no type ", quote({&spec.type, 1}), " for a float"));
  }
  if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') std::ranges::transform(text, text.begin(), upper);
  bool negative = std::signbit(value) && !std::isnan(value);
  if (spec.no_negative_zero && negative && text.find_first_of("123456789iI") == std::string::npos) negative = false;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view whole = std::string_view(text).substr(0, digits);
  write_number(runtime, spec, sign_of(spec, negative), whole, std::string_view(text).substr(digits), 3, out);
}

}  // namespace

void write_formatted(Runtime& runtime, const Value& value, std::string_view specification, bool own_specification, TextBuilder& out) {
  if (specification.empty() && own_specification) return print(runtime, value, out);
  if (specification.empty()) {
    const Value shown = to_text(runtime, value);
    return out.append(shown.text()->text);
  }
  runtime.step(1 + specification.size() / 8);
  const auto number = as_number(value);
  if (value.text() == nullptr && !number)
    runtime.fail(concat("format: a ", type_name(value), " takes no specification; '!s' makes a str of it"));
  const Specification spec = parse(runtime, specification);
  if (value.text() != nullptr) return write_text(runtime, spec, *value.text(), own_specification, out);
  constexpr std::string_view of_integers = "bcdoxXn";
  const bool integer_type = spec.type == '\0' || of_integers.find(spec.type) != std::string_view::npos;
  if (!number->real && integer_type) return write_integer(runtime, spec, number->integer, out);
  write_float(runtime, spec, number->value, out);
}

}  // namespace quern::jinja
