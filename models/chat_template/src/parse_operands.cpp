// Literals, names, and what follows an operand: subscripts, calls, filters and tests.
#include "parser.hpp"

#include "library.hpp"

namespace quern::jinja {

namespace {

Value text_constant(std::string text) {
  auto held = std::make_shared<Text>();
  held->text = std::move(text);
  return Value(std::shared_ptr<const Text>(std::move(held)));
}

}  // namespace

ExpressionPtr Parser::parse_primary() {
  const int line = current_.line;
  switch (current_.kind) {
    case TokenKind::name: return parse_name();
    case TokenKind::string: {
      std::string text = advance().text;
      while (current_.kind == TokenKind::string) text += advance().text;  // neighbours join
      return std::make_unique<Constant>(line, text_constant(std::move(text)));
    }
    case TokenKind::integer: return std::make_unique<Constant>(line, Value(advance().integer));
    case TokenKind::real: return std::make_unique<Constant>(line, Value(advance().real));
    default: break;
  }
  if (skip_operation("(")) {
    ExpressionPtr node = parse_tuple(TupleRule::parenthesised);
    expect_operation(")");
    return node;
  }
  if (is_operation("[")) return parse_list();
  if (is_operation("{")) return parse_mapping();
  fail(line, "expected an expression, found " + describe(current_));
}

ExpressionPtr Parser::parse_name() {
  const Token token = advance();
  const std::string& text = token.text;
  if (text == "true" || text == "True") return std::make_unique<Constant>(token.line, Value(true));
  if (text == "false" || text == "False") return std::make_unique<Constant>(token.line, Value(false));
  if (text == "none" || text == "None") return std::make_unique<Constant>(token.line, Value(None{}));
  const NameId id = intern(text);
  if (!macros_.empty()) {
    if (text == "varargs") macros_.back()->varargs = id;
    if (text == "kwargs") macros_.back()->kwargs = id;
  }
  return std::make_unique<Name>(token.line, id);
}

ExpressionPtr Parser::parse_list() {
  auto list = std::make_unique<SequenceDisplay>(current_.line, SequenceKind::list);
  expect_operation("[");
  while (!is_operation("]")) {
    attach(*list, list->items, parse_expression());
    if (!is_operation("]")) expect_operation(",");
  }
  expect_operation("]");
  return list;
}

ExpressionPtr Parser::parse_mapping() {
  auto mapping = std::make_unique<MappingDisplay>(current_.line);
  expect_operation("{");
  while (!is_operation("}")) {
    ExpressionPtr key = parse_expression();
    deepen(*mapping, *key);
    expect_operation(":");
    ExpressionPtr value = parse_expression();
    deepen(*mapping, *value);
    mapping->entries.emplace_back(std::move(key), std::move(value));
    if (!is_operation("}")) expect_operation(",");
  }
  expect_operation("}");
  return mapping;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (is_operation(".")) {
      node = parse_attribute(std::move(node));
    } else if (is_operation("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_operation("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (skip_operation("|")) {
      node = parse_filter(std::move(node));
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_operation("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_attribute(ExpressionPtr object) {
  const int line = advance().line;  // the dot
  if (current_.kind == TokenKind::integer) {
    auto subscript = std::make_unique<Subscript>(line, nullptr, nullptr);
    attach(*subscript, subscript->object, std::move(object));
    attach(*subscript, subscript->index, std::make_unique<Constant>(line, Value(advance().integer)));
    return subscript;
  }
  std::string name = expect_identifier("an attribute name").text;
  if (name.starts_with("__")) unsupported(line, "attribute '" + name + "' is not data, and nothing else can be reached");
  auto attribute = std::make_unique<Attribute>(line, nullptr, std::move(name));
  attach(*attribute, attribute->object, std::move(object));
  return attribute;
}

// x[i], x[a:b:c]; x[i, j] subscripts with a tuple.
ExpressionPtr Parser::parse_subscript(ExpressionPtr object) {
  const int line = advance().line;  // the bracket
  auto slice = std::make_unique<Slice>(line);
  ExpressionPtr index;
  if (!is_operation(":") && !is_operation("]")) index = parse_expression();
  if (!is_operation(":")) {
    if (!index || is_operation(",")) {
      auto tuple = std::make_unique<SequenceDisplay>(line, SequenceKind::tuple);
      if (index) attach(*tuple, tuple->items, std::move(index));
      while (skip_operation(",") && !is_operation("]")) attach(*tuple, tuple->items, parse_expression());
      index = std::move(tuple);
    }
    expect_operation("]");
    auto subscript = std::make_unique<Subscript>(line, nullptr, nullptr);
    attach(*subscript, subscript->object, std::move(object));
    attach(*subscript, subscript->index, std::move(index));
    return subscript;
  }
  attach(*slice, slice->object, std::move(object));
  if (index) attach(*slice, slice->start, std::move(index));
  expect_operation(":");
  if (!is_operation(":") && !is_operation("]")) attach(*slice, slice->stop, parse_expression());
  if (skip_operation(":") && !is_operation("]")) attach(*slice, slice->step, parse_expression());
  if (is_operation(",")) unsupported(line, "a subscript that mixes slices and commas is not offered");
  expect_operation("]");
  return slice;
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
  auto call = std::make_unique<Call>(current_.line, nullptr);
  if (callee->kind == ExpressionKind::name) { called_.emplace_back(out_.names[static_cast<const Name&>(*callee).id], call.get()); }
  attach(*call, call->callee, std::move(callee));
  parse_arguments(*call, call->arguments);
  return call;
}

void Parser::parse_arguments(Expression& owner, CallArguments& arguments) {
  const int line = current_.line;
  const auto ensure = [&](bool allowed) {
    if (!allowed) fail(line, "the arguments of a call are in the wrong order: positional, named, *sequence, **mapping");
  };
  std::set<std::string> names;
  expect_operation("(");
  while (!is_operation(")")) {
    if (skip_operation("*")) {
      ensure(!arguments.star && !arguments.double_star);
      attach(owner, arguments.star, parse_expression());
    } else if (skip_operation("**")) {
      ensure(!arguments.double_star);
      attach(owner, arguments.double_star, parse_expression());
    } else if (current_.kind == TokenKind::name && ahead().kind == TokenKind::operation && ahead().text == "=") {
      ensure(!arguments.double_star);
      std::string name = advance().text;
      advance();
      if (!names.insert(name).second) fail(line, "argument '" + name + "' is given twice");
      ExpressionPtr value = parse_expression();
      deepen(owner, *value);
      arguments.keyword.emplace_back(text_constant(std::move(name)), std::move(value));
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.keyword.empty());
      attach(owner, arguments.positional, parse_expression());
    }
    if (!is_operation(")")) expect_operation(",");
  }
  expect_operation(")");
}

std::string Parser::parse_dotted_name(std::string_view what) {
  std::string name = expect_identifier(what).text;
  while (skip_operation(".")) name += "." + expect_identifier(what).text;
  return name;
}

// `input` is null where the text of a block is the input.
std::unique_ptr<FilterUse> Parser::parse_filter(ExpressionPtr input) {
  const int line = current_.line;
  const std::string name = parse_dotted_name("the name of a filter");
  auto use = std::make_unique<FilterUse>(line, find_filter(name), nullptr);
  if (use->filter == nullptr) use->unknown = name;
  if (input) attach(*use, use->input, std::move(input));
  if (is_operation("(")) parse_arguments(*use, use->arguments);
  return use;
}

ExpressionPtr Parser::parse_test(ExpressionPtr input) {
  const int line = advance().line;  // 'is'
  const bool negated = skip_name("not");
  const std::string name = parse_dotted_name("the name of a test");
  auto use = std::make_unique<TestUse>(line, find_test(name), nullptr);
  if (use->test == nullptr) use->unknown = name;
  attach(*use, use->input, std::move(input));
  const bool is_value = current_.kind == TokenKind::name || current_.kind == TokenKind::string || current_.kind == TokenKind::integer ||
                        current_.kind == TokenKind::real || is_operation("[") || is_operation("{");
  if (is_operation("(")) {
    parse_arguments(*use, use->arguments);
  } else if (is_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail(current_.line, "two tests follow each other; put the first in parentheses");
    attach(*use, use->arguments.positional, parse_postfix(parse_primary()));
  }
  if (!negated) return use;
  auto negation = std::make_unique<Unary>(ExpressionKind::logical_not, line, nullptr);
  attach(*negation, negation->operand, std::move(use));
  return negation;
}

}  // namespace quern::jinja
