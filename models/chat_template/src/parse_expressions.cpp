// Operators: precedence climbing from 'or' down to the unary signs. Operands are in parse_operands.cpp.
//
// The levels are Jinja's, not Python's: '~' binds tighter than '+', a sign binds tighter than '**', and '**'
// groups to the left.
#include "parser.hpp"

#include "library.hpp"

namespace quern::jinja {

namespace {

enum Level : int { level_or = 1, level_and, level_not, level_compare, level_add, level_concat, level_multiply, level_power };

ArithmeticOp arithmetic_op(std::string_view text) {
  if (text == "+") return ArithmeticOp::add;
  if (text == "-") return ArithmeticOp::subtract;
  if (text == "*") return ArithmeticOp::multiply;
  if (text == "/") return ArithmeticOp::divide;
  if (text == "//") return ArithmeticOp::floor_divide;
  if (text == "%") return ArithmeticOp::modulo;
  return ArithmeticOp::power;
}

}  // namespace

// a if b else c; the else may be missing.
ExpressionPtr Parser::parse_expression() {
  const Nest nest(*this);
  ExpressionPtr node = parse_binary(level_or);
  while (is_name("if")) {
    auto conditional = std::make_unique<Conditional>(advance().line);
    attach(*conditional, conditional->chosen, std::move(node));
    attach(*conditional, conditional->condition, parse_binary(level_or));
    if (skip_name("else")) attach(*conditional, conditional->otherwise, parse_expression());
    node = std::move(conditional);
  }
  return node;
}

// Several expressions with commas between them are a tuple, with or without parentheses.
ExpressionPtr Parser::parse_tuple(TupleRule rule) {
  auto tuple = std::make_unique<SequenceDisplay>(current_.line, SequenceKind::tuple);
  bool has_comma = false;
  while (true) {
    const bool ends = current_.kind == TokenKind::variable_end || current_.kind == TokenKind::block_end || is_operation(")");
    if (ends) break;
    attach(*tuple, tuple->items, rule == TupleRule::without_condition ? parse_binary(level_or) : parse_expression());
    if (!skip_operation(",")) break;
    has_comma = true;
  }
  if (!has_comma && !tuple->items.empty()) return std::move(tuple->items.front());
  if (!has_comma && rule != TupleRule::parenthesised) { fail(current_.line, "expected an expression, found " + describe(current_)); }
  return tuple;
}

// The level of the operator that comes next, or 0.
int Parser::operation_level() const noexcept {
  if (current_.kind == TokenKind::name) {
    if (current_.text == "or") return level_or;
    if (current_.text == "and") return level_and;
    if (current_.text == "in") return level_compare;
    return 0;
  }
  if (current_.kind != TokenKind::operation) return 0;
  const std::string_view text = current_.text;
  if (text == "==" || text == "!=" || text == "<" || text == "<=" || text == ">" || text == ">=") return level_compare;
  if (text == "+" || text == "-") return level_add;
  if (text == "~") return level_concat;
  if (text == "*" || text == "/" || text == "//" || text == "%") return level_multiply;
  if (text == "**") return level_power;
  return 0;
}

ExpressionPtr Parser::parse_binary(int lowest) {
  const Nest nest(*this);
  ExpressionPtr node;
  if (lowest <= level_not && is_name("not")) {
    auto negation = std::make_unique<Unary>(ExpressionKind::logical_not, advance().line, nullptr);
    attach(*negation, negation->operand, parse_binary(level_not));
    node = std::move(negation);
  } else {
    node = parse_unary(true);
  }
  while (true) {
    int level = operation_level();
    if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") level = level_compare;
    if (level == 0 || level < lowest) return node;
    if (level == level_compare) {
      node = parse_comparison(std::move(node));
    } else if (level == level_concat) {
      node = parse_concatenation(std::move(node));
    } else if (level == level_or || level == level_and) {
      auto logical = std::make_unique<Logical>(level == level_or ? ExpressionKind::logical_or : ExpressionKind::logical_and, advance().line,
                                               nullptr, nullptr);
      attach(*logical, logical->left, std::move(node));
      attach(*logical, logical->right, parse_binary(level + 1));
      node = std::move(logical);
    } else {
      const Token op = advance();
      auto arithmetic = std::make_unique<Arithmetic>(op.line, arithmetic_op(op.text), nullptr, nullptr);
      attach(*arithmetic, arithmetic->left, std::move(node));
      attach(*arithmetic, arithmetic->right, level == level_power ? parse_unary(true) : parse_binary(level + 1));
      node = std::move(arithmetic);
    }
  }
}

// a < b <= c: one node, so that b is evaluated once.
ExpressionPtr Parser::parse_comparison(ExpressionPtr first) {
  auto comparison = std::make_unique<Comparison>(current_.line, nullptr);
  attach(*comparison, comparison->first, std::move(first));
  while (true) {
    CompareOp op = CompareOp::eq;
    if (is_operation("==")) op = CompareOp::eq;
    else if (is_operation("!=")) op = CompareOp::ne;
    else if (is_operation("<")) op = CompareOp::lt;
    else if (is_operation("<=")) op = CompareOp::le;
    else if (is_operation(">")) op = CompareOp::gt;
    else if (is_operation(">=")) op = CompareOp::ge;
    else if (is_name("in")) op = CompareOp::in;
    else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") op = CompareOp::not_in;
    else return comparison;
    advance();
    if (op == CompareOp::not_in) advance();
    ExpressionPtr operand = parse_binary(level_add);
    deepen(*comparison, *operand);
    comparison->rest.emplace_back(op, std::move(operand));
  }
}

ExpressionPtr Parser::parse_concatenation(ExpressionPtr first) {
  auto node = std::make_unique<Concatenation>(current_.line);
  attach(*node, node->parts, std::move(first));
  while (skip_operation("~")) attach(*node, node->parts, parse_binary(level_multiply));
  return node;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  const Nest nest(*this);
  ExpressionPtr node;
  if (is_operation("-") || is_operation("+")) {
    const Token sign = advance();
    auto unary = std::make_unique<Unary>(sign.text == "-" ? ExpressionKind::negate : ExpressionKind::plus, sign.line, nullptr);
    attach(*unary, unary->operand, parse_unary(false));
    node = std::move(unary);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace quern::jinja
