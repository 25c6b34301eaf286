// Expressions to values.
#include "evaluate.hpp"

#include "attributes.hpp"
#include "library.hpp"
#include "loop_state.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"

namespace quern::jinja {

Value Evaluator::evaluate(const Expression& expression) {
  const Runtime::EvaluationDepth depth(runtime_);
  runtime_.step();
  runtime_.set_line(expression.line);
  switch (expression.kind) {
    case ExpressionKind::constant: return static_cast<const Constant&>(expression).value;
    case ExpressionKind::name: return evaluate_name(static_cast<const Name&>(expression));
    case ExpressionKind::sequence: return evaluate_sequence(static_cast<const SequenceDisplay&>(expression));
    case ExpressionKind::mapping: return evaluate_mapping(static_cast<const MappingDisplay&>(expression));
    case ExpressionKind::negate:
    case ExpressionKind::plus:
    case ExpressionKind::logical_not: return evaluate_unary(static_cast<const Unary&>(expression));
    case ExpressionKind::arithmetic: return evaluate_arithmetic(static_cast<const Arithmetic&>(expression));
    case ExpressionKind::logical_and:
    case ExpressionKind::logical_or: return evaluate_logical(static_cast<const Logical&>(expression));
    case ExpressionKind::comparison: return evaluate_comparison(static_cast<const Comparison&>(expression));
    case ExpressionKind::concatenation: return evaluate_concatenation(static_cast<const Concatenation&>(expression));
    case ExpressionKind::conditional: return evaluate_conditional(static_cast<const Conditional&>(expression));
    case ExpressionKind::attribute: {
      const auto& node = static_cast<const Attribute&>(expression);
      return get_attribute(runtime_, evaluate(*node.object), node.attribute);
    }
    case ExpressionKind::subscript: {
      const auto& node = static_cast<const Subscript&>(expression);
      const Value object = evaluate(*node.object);
      return get_item(runtime_, object, evaluate(*node.index));
    }
    case ExpressionKind::slice: return evaluate_slice(static_cast<const Slice&>(expression));
    case ExpressionKind::call: return evaluate_call(static_cast<const Call&>(expression));
    case ExpressionKind::filter: {
      const auto& node = static_cast<const FilterUse&>(expression);
      return evaluate_filter(node, evaluate(*node.input));
    }
    case ExpressionKind::test: break;
  }
  return evaluate_test(static_cast<const TestUse&>(expression));
}

Value Evaluator::evaluate_name(const Name& name) {
  if (const Value* value = scope_->find(runtime_, name.id)) return *value;
  const std::string& text = template_.names[name.id];
  if (const GlobalFunction* function = find_global(text)) return runtime_.callable(function);
  if (text == "self") runtime_.unsupported("'self', the template as an object, is not offered");
  return runtime_.undefined("'" + shown(text) + "' is undefined");
}

Value Evaluator::evaluate_sequence(const SequenceDisplay& display) {
  Counted<Value> items(runtime_);
  items.reserve(display.items.size());
  for (const auto& item : display.items) items.push_back(evaluate(*item));
  return runtime_.sequence(display.sequence_kind, std::move(items));
}

Value Evaluator::evaluate_mapping(const MappingDisplay& display) {
  Entries entries(runtime_);
  for (const auto& [key, value] : display.entries) {
    Value evaluated_key = evaluate(*key);
    set_entry(runtime_, entries, std::move(evaluated_key), evaluate(*value));
  }
  return runtime_.mapping(std::move(entries));
}

Value Evaluator::evaluate_unary(const Unary& unary) {
  const Value operand = evaluate(*unary.operand);
  if (unary.kind == ExpressionKind::logical_not) return !truth(operand);
  return unary.kind == ExpressionKind::negate ? negate(runtime_, operand) : plus(runtime_, operand);
}

Value Evaluator::evaluate_arithmetic(const Arithmetic& node) {
  const Value left = evaluate(*node.left);
  const Value right = evaluate(*node.right);
  runtime_.set_line(node.line);
  return arithmetic(runtime_, node.op, left, right);
}

Value Evaluator::evaluate_logical(const Logical& logical) {
  Value left = evaluate(*logical.left);
  const bool decided = truth(left) == (logical.kind == ExpressionKind::logical_or);
  return decided ? left : evaluate(*logical.right);
}

Value Evaluator::evaluate_comparison(const Comparison& comparison) {
  Value left = evaluate(*comparison.first);
  for (const auto& [op, operand] : comparison.rest) {
    Value right = evaluate(*operand);
    if (!compare(runtime_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::evaluate_concatenation(const Concatenation& concatenation) {
  TextBuilder out(runtime_);
  for (const auto& part : concatenation.parts) print(runtime_, evaluate(*part), out);
  return out.finish();
}

Value Evaluator::evaluate_conditional(const Conditional& conditional) {
  if (truth(evaluate(*conditional.condition))) return evaluate(*conditional.chosen);
  if (conditional.otherwise) return evaluate(*conditional.otherwise);
  return runtime_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Evaluator::evaluate_slice(const Slice& slice) {
  const Value object = evaluate(*slice.object);
  const auto bound = [&](const ExpressionPtr& part) { return part ? evaluate(*part) : Value(None{}); };
  const Value start = bound(slice.start);
  const Value stop = bound(slice.stop);
  const Value step = bound(slice.step);
  return get_slice(runtime_, object, start, stop, step);
}

Arguments Evaluator::evaluate_arguments(const CallArguments& arguments) {
  Arguments evaluated(runtime_);
  evaluated.positional.reserve(arguments.positional.size());
  for (const auto& argument : arguments.positional) evaluated.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.keyword) evaluated.keyword.push_back({name, evaluate(*argument)});
  if (arguments.star) {
    for (Value& item : items_of(runtime_, evaluate(*arguments.star))) {
      runtime_.step();
      evaluated.positional.push_back(std::move(item));
    }
  }
  if (arguments.double_star) {
    const Value more = evaluate(*arguments.double_star);
    const Mapping* mapping = more.mapping();
    if (mapping == nullptr) runtime_.fail(concat("the argument behind '**' is a ", type_name(more), ", not a dict"));
    for (const auto& [key, value] : mapping->entries) {
      runtime_.step();
      if (key.text() == nullptr) runtime_.fail("the argument behind '**' has a key that is not a str");
      evaluated.keyword.push_back({key, value});
    }
  }
  return evaluated;
}

Value Evaluator::evaluate_call(const Call& node) {
  const Value callee = evaluate(*node.callee);
  const Arguments arguments = evaluate_arguments(node.arguments);
  if (node.unknown_name && callee.is_undefined()) {
    runtime_.set_line(node.line);
    const std::string& name = template_.names[static_cast<const Name&>(*node.callee).id];
    runtime_.unsupported("function '" + shown(name) + "' is not offered");
  }
  return call(callee, arguments, node.line);
}

Value Evaluator::call(const Value& callee, const Arguments& arguments, int line) {
  runtime_.set_line(line);
  if (callee.is_undefined()) runtime_.fail_undefined(callee);
  if (const LoopState* loop = callee.loop()) return call_loop(*loop, arguments);
  const Callable* callable = callee.callable();
  if (callable == nullptr) runtime_.fail(concat("a ", type_name(callee), " is called, but it is not a function"));
  if (const auto* macro = std::get_if<MacroClosure>(&callable->target)) return call_macro(*macro, arguments);
  if (const auto* function = std::get_if<const GlobalFunction*>(&callable->target)) { return (*function)->call(runtime_, arguments); }
  const auto& bound = std::get<BoundMethod>(callable->target);
  const Text* self = bound.self.text();
  if (self != nullptr && self->markup && !arguments.positional.empty()) {
    runtime_.unsupported(concat("method '", bound.method->name, "' of a string marked safe is not offered"));
  }
  return bound.method->call(runtime_, bound.self, arguments);
}

Value Evaluator::evaluate_filter(const FilterUse& use, const Value& input) {
  const Arguments arguments = evaluate_arguments(use.arguments);
  runtime_.set_line(use.line);
  if (use.filter == nullptr) runtime_.unsupported("filter '" + shown(use.unknown) + "' is not offered");
  return use.filter->apply(runtime_, input, arguments);
}

Value Evaluator::evaluate_test(const TestUse& use) {
  const Value input = evaluate(*use.input);
  const Arguments arguments = evaluate_arguments(use.arguments);
  runtime_.set_line(use.line);
  if (use.test == nullptr) runtime_.unsupported("test '" + shown(use.unknown) + "' is not offered");
  return use.test->holds(runtime_, input, arguments);
}

}  // namespace quern::jinja
