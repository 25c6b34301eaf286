// + - * / // % ** over numbers, strings and lists.
#include "operators.hpp"

#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <cmath>

namespace quern::jinja {

namespace {

constexpr std::string_view symbols[] = {"+", "-", "*", "/", "//", "%", "**"};

std::string_view symbol(ArithmeticOp op) noexcept { return symbols[static_cast<std::size_t>(op)]; }

[[noreturn]] void fail_overflow(Runtime& runtime, ArithmeticOp op) {
  runtime.unsupported(concat("the result of '", symbol(op), "' is an integer beyond 64 bits"));
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept { return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }

double modulo(double a, double b) noexcept {
  double rest = std::fmod(a, b);
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double floor_divide(double a, double b) noexcept {
  const double rest = modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value integer_power(Runtime& runtime, std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    runtime.step();
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow(runtime, ArithmeticOp::power);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(runtime, ArithmeticOp::power);
  }
  return result;
}

Value power(Runtime& runtime, const Number& a, const Number& b) {
  if (!a.real && !b.real && b.integer >= 0) return integer_power(runtime, a.integer, b.integer);
  if (a.value == 0 && b.value < 0) runtime.fail("zero is raised to a negative power");
  if (a.value < 0 && std::isfinite(a.value) && std::isfinite(b.value) && b.value != std::floor(b.value)) {
    runtime.unsupported("a negative number is raised to a fraction, which gives a complex number");
  }
  const double result = std::pow(a.value, b.value);
  if (std::isinf(result) && std::isfinite(a.value) && std::isfinite(b.value)) {
    runtime.fail("the result of '**' is too large for a float");
  }
  return result;
}

Value integer_arithmetic(Runtime& runtime, ArithmeticOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case ArithmeticOp::add: overflow = __builtin_add_overflow(a, b, &result); break;
    case ArithmeticOp::subtract: overflow = __builtin_sub_overflow(a, b, &result); break;
    case ArithmeticOp::multiply: overflow = __builtin_mul_overflow(a, b, &result); break;
    case ArithmeticOp::floor_divide:
      overflow = b == -1 && a == INT64_MIN;
      if (!overflow) result = floor_divide(a, b);
      break;
    case ArithmeticOp::modulo: result = b == -1 ? 0 : a - floor_divide(a, b) * b; break;
    case ArithmeticOp::divide:
    case ArithmeticOp::power: break;  // not here: numbers() has taken them
  }
  if (overflow) fail_overflow(runtime, op);
  return result;
}

Value numbers(Runtime& runtime, ArithmeticOp op, const Number& a, const Number& b) {
  const bool divides = op == ArithmeticOp::divide || op == ArithmeticOp::floor_divide || op == ArithmeticOp::modulo;
  if (divides && b.value == 0) runtime.fail(concat("'", symbol(op), "' divides by zero"));
  if (op == ArithmeticOp::power) return power(runtime, a, b);
  if (!a.real && !b.real && op != ArithmeticOp::divide) { return integer_arithmetic(runtime, op, a.integer, b.integer); }
  switch (op) {
    case ArithmeticOp::add: return a.value + b.value;
    case ArithmeticOp::subtract: return a.value - b.value;
    case ArithmeticOp::multiply: return a.value * b.value;
    case ArithmeticOp::divide: return a.value / b.value;
    case ArithmeticOp::floor_divide: return floor_divide(a.value, b.value);
    default: return modulo(a.value, b.value);
  }
}

Value join_texts(Runtime& runtime, const Text& left, const Text& right) {
  const bool markup = left.markup || right.markup;
  TextBuilder out(runtime);
  out.reserve(left.text.size() + right.text.size());
  for (const Text* part : {&left, &right}) {
    if (markup && !part->markup) {
      escape_html(out, *part);  // what is not marked safe is escaped when it meets what is
    } else {
      out.append(*part);
    }
  }
  return out.finish(markup);
}

Value join_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  runtime.step(left.items.size() + right.items.size());
  Counted<Value> items(runtime);
  items.reserve(left.items.size() + right.items.size());
  items.insert(items.end(), left.items.begin(), left.items.end());
  items.insert(items.end(), right.items.begin(), right.items.end());
  return runtime.sequence(left.kind, std::move(items));
}

// A str, list or tuple, `count` times. Empty if `value` is none of them.
std::optional<Value> repeat(Runtime& runtime, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::uint64_t>(count > 0 ? count : 0);
  if (const Text* text = value.text()) {
    TextBuilder out(runtime);
    out.append(times, *text);  // refuses before anything is allocated
    return out.finish(text->markup);
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind > SequenceKind::tuple) return std::nullopt;
  Counted<Value> items(runtime);
  if (!sequence->items.empty()) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(sequence->items.size() * sizeof(Value), times, &bytes)) bytes = UINT64_MAX;
    Charge(runtime, bytes);  // refuses before anything is allocated
    items.reserve(sequence->items.size() * times);
    for (std::uint64_t i = 0; i < times; ++i) {
      runtime.step(sequence->items.size());
      items.insert(items.end(), sequence->items.begin(), sequence->items.end());
    }
  }
  return runtime.sequence(sequence->kind, std::move(items));
}

}  // namespace

Value arithmetic(Runtime& runtime, ArithmeticOp op, const Value& left, const Value& right) {
  if (op == ArithmeticOp::modulo && left.text() != nullptr) return format_text(runtime, *left.text(), right);
  if (left.is_undefined()) runtime.fail_undefined(left);
  if (right.is_undefined()) runtime.fail_undefined(right);
  const auto a = as_number(left);
  const auto b = as_number(right);
  if (a && b) return numbers(runtime, op, *a, *b);
  if (op == ArithmeticOp::add) {
    if (left.text() != nullptr && right.text() != nullptr) return join_texts(runtime, *left.text(), *right.text());
    const Sequence* p = left.sequence();
    const Sequence* q = right.sequence();
    if (p != nullptr && q != nullptr && p->kind == q->kind && p->kind <= SequenceKind::tuple) { return join_sequences(runtime, *p, *q); }
  }
  if (op == ArithmeticOp::multiply && (a || b)) {
    const Number& count = a ? *a : *b;
    if (!count.real) {
      if (std::optional<Value> repeated = repeat(runtime, a ? right : left, count.integer)) return *repeated;
    }
  }
  runtime.fail(concat("'", symbol(op), "' cannot join a ", type_name(left), " and a ", type_name(right)));
}

Value negate(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  const auto number = as_number(value);
  if (!number) runtime.fail(concat("a ", type_name(value), " has no negative"));
  if (number->real) return -number->value;
  if (number->integer == INT64_MIN) fail_overflow(runtime, ArithmeticOp::subtract);
  return -number->integer;
}

Value plus(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  const auto number = as_number(value);
  if (!number) runtime.fail(concat("'+' needs a number and found a ", type_name(value)));
  return number->real ? Value(number->value) : Value(number->integer);
}

}  // namespace quern::jinja
