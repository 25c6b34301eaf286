// Filters that make or change numbers, and 'default'.
#include "library.hpp"

#include "numbers.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>

namespace quern::jinja {

namespace {

Value absolute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'abs'", arguments, {});
  if (input.is_undefined()) runtime.fail_undefined(input);
  const auto number = as_number(input);
  if (!number) runtime.fail(concat("filter 'abs' needs a number and got a ", type_name(input)));
  if (number->real) return std::fabs(number->value);
  return number->integer < 0 ? negate(runtime, number->integer) : Value(number->integer);
}

// int(value) for a float.
std::int64_t truncate(Runtime& runtime, double value) {
  if (!(value > -9.2233720368547758e18 && value < 9.2233720368547758e18)) {
    runtime.unsupported(concat("the float ", format_float(value), " is beyond a 64-bit integer"));
  }
  return static_cast<std::int64_t>(value);
}

Value to_int(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'int'", arguments, {"default", "base"});
  const Value otherwise = parameters.find(0) == nullptr ? Value(std::int64_t{0}) : *parameters.find(0);
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (const Text* text = input.text()) {
    const std::int64_t base = parameters.integer(1, 10);
    const bool is_base = base == 0 || (base >= 2 && base <= 36);
    runtime.step_text(text->text.size());
    if (const auto parsed = is_base ? parse_integer(runtime, text->text, static_cast<int>(base)) : std::nullopt) {
      if (parsed->beyond_64_bits) runtime.unsupported("filter 'int': the number is beyond 64 bits");
      return parsed->value;
    }
    const auto real = parse_float(runtime, text->text);
    return real && std::isfinite(*real) ? Value(truncate(runtime, *real)) : otherwise;
  }
  const auto number = as_number(input);
  if (!number) return otherwise;
  if (!number->real) return number->integer;
  if (std::isnan(number->value)) return otherwise;
  if (std::isinf(number->value)) runtime.fail("filter 'int': infinity is no integer");
  return truncate(runtime, number->value);
}

Value to_float(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'float'", arguments, {"default"});
  if (input.is_undefined()) runtime.fail_undefined(input);
  if (const auto number = as_number(input)) return number->value;
  if (const Text* text = input.text()) {
    runtime.step_text(text->text.size());
    if (const auto parsed = parse_float(runtime, text->text)) return *parsed;
  }
  return parameters.find(0) == nullptr ? Value(0.0) : *parameters.find(0);
}

// round(int, digits): digits below zero round to tens, hundreds, ..., halves to even.
Value round_integer(Runtime& runtime, std::int64_t value, std::int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return std::int64_t{0};
  std::int64_t unit = 1;
  for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
  const std::int64_t rest = value % unit;
  std::int64_t rounded = value - rest;
  const std::int64_t twice = rest < 0 ? -rest - (unit + rest) : rest - (unit - rest);  // 2|rest| - unit
  if (twice > 0 || (twice == 0 && rounded / unit % 2 != 0)) {
    if (__builtin_add_overflow(rounded, rest < 0 ? -unit : unit, &rounded)) {
      runtime.unsupported("filter 'round': the result is beyond 64 bits");
    }
  }
  return rounded;
}

Value round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'round'", arguments, {"precision", "method"});
  if (input.is_undefined()) runtime.fail_undefined(input);
  const auto number = as_number(input);
  if (!number) runtime.fail(concat("filter 'round' needs a number and got a ", type_name(input)));
  const std::int64_t precision = parameters.integer(0, 0);
  const std::string_view method = parameters.string(1, "common");
  if (method == "common") {
    if (!number->real) return round_integer(runtime, number->integer, precision);
    return round_decimal(number->value, static_cast<int>(std::clamp<std::int64_t>(precision, -400, 400)));
  }
  if (method != "ceil" && method != "floor") runtime.fail("filter 'round': method is 'common', 'ceil' or 'floor'");
  const Value scale = arithmetic(runtime, ArithmeticOp::power, std::int64_t{10}, precision);
  const auto scaled = *as_number(arithmetic(runtime, ArithmeticOp::multiply, input, scale));
  if (scaled.real && !std::isfinite(scaled.value)) runtime.fail("filter 'round': the number is not finite");
  const double whole = scaled.real ? (method == "ceil" ? std::ceil(scaled.value) : std::floor(scaled.value)) : 0.0;
  return arithmetic(runtime, ArithmeticOp::divide, scaled.real ? Value(whole) : Value(scaled.integer), scale);
}

Value otherwise(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'default'", arguments, {"default_value", "boolean"});
  if (!input.is_undefined() && !(parameters.truth(1, false) && !truth(input))) return input;
  return parameters.find(0) == nullptr ? runtime.own_text("") : *parameters.find(0);
}

constexpr Filter number_filter_table[] = {{"abs", absolute},   {"d", otherwise}, {"default", otherwise},
                                          {"float", to_float}, {"int", to_int},  {"round", round}};

}  // namespace

std::span<const Filter> number_filters() noexcept { return number_filter_table; }

}  // namespace quern::jinja
