// What may follow 'is'.
#include "library.hpp"

#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <cmath>

namespace quern::jinja {

namespace {

void no_arguments(Runtime& runtime, const Arguments& arguments) { Parameters(runtime, "this test", arguments, {}); }

template <bool (*holds)(const Value&)>
bool plain(Runtime& runtime, const Value& input, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return holds(input);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_true(const Value& value) { return value.is<bool>() && *value.get_if<bool>(); }
bool is_false(const Value& value) { return value.is<bool>() && !*value.get_if<bool>(); }
bool is_integer(const Value& value) { return value.integer() != nullptr; }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_number(const Value& value) { return as_number(value).has_value(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.mapping() != nullptr; }
bool is_callable(const Value& value) { return value.callable() != nullptr || value.loop() != nullptr || value.is_undefined(); }
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->markup; }
bool can_iterate(const Value& value) { return is_iterable(value) || value.loop() != nullptr; }

// Has a length and can be indexed, as far as Python's attributes say.
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.is_undefined() || value.text() != nullptr || value.mapping() != nullptr ||
         (sequence != nullptr && sequence->kind <= SequenceKind::range);
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, std::int64_t expected) {
  return equal(runtime, arithmetic(runtime, ArithmeticOp::modulo, value, divisor), expected);
}

bool is_odd(Runtime& runtime, const Value& input, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return remainder_is(runtime, input, std::int64_t{2}, 1);
}
bool is_even(Runtime& runtime, const Value& input, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return remainder_is(runtime, input, std::int64_t{2}, 0);
}
bool is_divisible_by(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "test 'divisibleby'", arguments, {"num"}, 1);
  return remainder_is(runtime, input, parameters.at(0), 0);
}

template <bool (*wanted)(char32_t) noexcept>
bool has_case(Runtime& runtime, const Value& input, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  const Value text = to_text(runtime, input);
  return has_only(runtime, text.text()->text, wanted);
}

bool is_same(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "test 'sameas'", arguments, {"other"}, 1);
  return same(runtime, input, parameters.at(0));
}

template <CompareOp op>
bool compares(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "this test", arguments, {"other"}, 1);
  return compare(runtime, op, input, parameters.at(0));
}

constexpr Test test_table[] = {{"!=", compares<CompareOp::ne>},
                               {"<", compares<CompareOp::lt>},
                               {"<=", compares<CompareOp::le>},
                               {"==", compares<CompareOp::eq>},
                               {">", compares<CompareOp::gt>},
                               {">=", compares<CompareOp::ge>},
                               {"boolean", plain<is_boolean>},
                               {"callable", plain<is_callable>},
                               {"defined", plain<is_defined>},
                               {"divisibleby", is_divisible_by},
                               {"eq", compares<CompareOp::eq>},
                               {"equalto", compares<CompareOp::eq>},
                               {"escaped", plain<is_escaped>},
                               {"even", is_even},
                               {"false", plain<is_false>},
                               {"float", plain<is_float>},
                               {"ge", compares<CompareOp::ge>},
                               {"greaterthan", compares<CompareOp::gt>},
                               {"gt", compares<CompareOp::gt>},
                               {"in", compares<CompareOp::in>},
                               {"integer", plain<is_integer>},
                               {"iterable", plain<can_iterate>},
                               {"le", compares<CompareOp::le>},
                               {"lessthan", compares<CompareOp::lt>},
                               {"lower", has_case<is_lower>},
                               {"lt", compares<CompareOp::lt>},
                               {"mapping", plain<is_mapping>},
                               {"ne", compares<CompareOp::ne>},
                               {"none", plain<is_none>},
                               {"number", plain<is_number>},
                               {"odd", is_odd},
                               {"sameas", is_same},
                               {"sequence", plain<is_sequence>},
                               {"string", plain<is_string>},
                               {"true", plain<is_true>},
                               {"undefined", plain<is_undefined>},
                               {"upper", has_case<is_upper>}};

}  // namespace

const Test* find_test(std::string_view name) noexcept {
  for (const Test& test : test_table) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace quern::jinja
