// Tags, and the text between them.
#include "parser.hpp"

#include "library.hpp"

#include <algorithm>
#include <array>

namespace quern::jinja {

// Reads until one of `ends`, whose name is then the current token; to the end of the template if there are
// none.
Body Parser::parse_body(std::initializer_list<std::string_view> ends, std::string_view opened_by, int opened_at) {
  const Nest nest(*this);
  Body body;
  while (current_.kind != TokenKind::end) {
    if (current_.kind == TokenKind::data) {
      Token data = advance();
      body.push_back(std::make_unique<TextOutput>(data.line, std::move(data.text)));
    } else if (current_.kind == TokenKind::variable_begin) {
      const int line = advance().line;
      body.push_back(std::make_unique<Print>(line, parse_tuple(TupleRule::full)));
      expect(TokenKind::variable_end, "'}}'");
    } else {
      expect(TokenKind::block_begin, "'{%'");
      const bool ends_here = current_.kind == TokenKind::name && std::find(ends.begin(), ends.end(), current_.text) != ends.end();
      if (ends_here) return body;
      parse_statement(body);
      expect(TokenKind::block_end, "'%}'");
    }
  }
  if (ends.size() > 0) {
    fail(current_.line,
         concat("the template ends inside '", opened_by, "' of line ", opened_at, "; expected '{% ", *(ends.end() - 1), " %}'"));
  }
  return body;
}

// The body of a tag, from the end of the tag on.
Body Parser::parse_block_body(std::initializer_list<std::string_view> ends, std::string_view tag, int line) {
  skip_operation(":");
  expect(TokenKind::block_end, "'%}'");
  return parse_body(ends, tag, line);
}

void Parser::parse_statement(Body& body) {
  if (current_.kind != TokenKind::name) fail(current_.line, "expected the name of a tag, found " + describe(current_));
  const std::string& tag = current_.text;
  if (tag == "if") return body.push_back(parse_if());
  if (tag == "for") return body.push_back(parse_for());
  if (tag == "set") return body.push_back(parse_set());
  if (tag == "macro") return body.push_back(parse_macro());
  if (tag == "with") return body.push_back(parse_with());
  if (tag == "filter") return body.push_back(parse_filter_block());
  if (tag == "generation") return body.push_back(parse_generation());
  if (tag == "break") return body.push_back(parse_jump(StatementKind::break_loop));
  if (tag == "continue") return body.push_back(parse_jump(StatementKind::continue_loop));
  if (tag == "print") return parse_print(body);
  if (tag == "else" || tag == "elif" || tag.starts_with("end")) {
    fail(current_.line, "tag '" + tag + "' closes nothing that is open here");
  }
  unsupported(current_.line, "tag '" + tag + "' is not offered");
}

std::unique_ptr<Statement> Parser::parse_if() {
  const int line = current_.line;
  auto branch = std::make_unique<Branch>(line);
  while (true) {
    advance();  // 'if' or 'elif'
    ExpressionPtr condition = parse_tuple(TupleRule::without_condition);
    Body arm = parse_block_body({"elif", "else", "endif"}, "if", line);
    branch->arms.emplace_back(std::move(condition), std::move(arm));
    if (!is_name("elif")) break;
  }
  if (advance().text == "else") {
    branch->otherwise = parse_block_body({"endif"}, "if", line);
    advance();
  }
  return branch;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto loop = std::make_unique<Loop>(advance().line);
  loop->target = parse_target(false);
  expect_name("in");
  loop->iterable = parse_tuple(TupleRule::without_condition);
  if (skip_name("if")) loop->condition = parse_expression();
  loop->recursive = skip_name("recursive");
  ++loops_;
  loop->body = parse_block_body({"else", "endfor"}, "for", loop->line);
  --loops_;
  if (advance().text == "else") {
    loop->otherwise = parse_block_body({"endfor"}, "for", loop->line);
    advance();
  }
  return loop;
}

std::unique_ptr<Statement> Parser::parse_set() {
  const int line = advance().line;
  Target target = parse_target(true);
  if (skip_operation("=")) {
    auto assign = std::make_unique<Assign>(line);
    assign->target = std::move(target);
    assign->value = parse_tuple(TupleRule::full);
    return assign;
  }
  auto capture = std::make_unique<Capture>(line);
  capture->target = std::move(target);
  capture->filters = parse_filter_chain(false);
  capture->body = parse_block_body({"endset"}, "set", line);
  advance();
  return capture;
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto macro = std::make_unique<MacroDefinition>(advance().line);
  macro->name = expect_identifier("the name of the macro").text;
  macro->id = intern(macro->name);
  assigned_.insert(macro->name);
  expect_operation("(");
  macros_.push_back(macro.get());
  std::set<std::string> names;
  while (!is_operation(")")) {
    MacroDefinition::Parameter parameter;
    const Token name = expect_identifier("the name of a parameter");
    if (!names.insert(name.text).second) { fail(name.line, "macro '" + macro->name + "' has two parameters '" + name.text + "'"); }
    parameter.id = intern(name.text);
    parameter.name = name.text;
    assigned_.insert(name.text);
    if (skip_operation("=")) {
      parameter.otherwise = parse_expression();
    } else if (!macro->parameters.empty() && macro->parameters.back().otherwise) {
      fail(name.line, "parameter '" + name.text + "' has no default but follows one that has");
    }
    macro->parameters.push_back(std::move(parameter));
    if (!is_operation(")")) expect_operation(",");
  }
  expect_operation(")");
  const int outer_loops = std::exchange(loops_, 0);
  macro->body = parse_block_body({"endmacro"}, "macro", macro->line);
  loops_ = outer_loops;
  macros_.pop_back();
  advance();
  return macro;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto with = std::make_unique<With>(advance().line);
  while (current_.kind != TokenKind::block_end) {
    Target target = parse_target(false);
    expect_operation("=");
    with->bindings.emplace_back(std::move(target), parse_expression());
    if (current_.kind != TokenKind::block_end) expect_operation(",");
  }
  with->body = parse_block_body({"endwith"}, "with", with->line);
  advance();
  return with;
}

std::vector<std::unique_ptr<FilterUse>> Parser::parse_filter_chain(bool starts_inline) {
  std::vector<std::unique_ptr<FilterUse>> chain;
  if (starts_inline) chain.push_back(parse_filter(nullptr));
  while (skip_operation("|")) chain.push_back(parse_filter(nullptr));
  return chain;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto block = std::make_unique<FilterBlock>(advance().line);
  block->filters = parse_filter_chain(true);
  block->body = parse_block_body({"endfilter"}, "filter", block->line);
  advance();
  return block;
}

// Marks what the model wrote, for training masks; rendering passes it through.
std::unique_ptr<Statement> Parser::parse_generation() {
  auto scope = std::make_unique<ScopedBody>(advance().line);
  const int outer_loops = std::exchange(loops_, 0);
  scope->body = parse_block_body({"endgeneration"}, "generation", scope->line);
  loops_ = outer_loops;
  advance();
  return scope;
}

std::unique_ptr<Statement> Parser::parse_jump(StatementKind kind) {
  const Token token = advance();
  if (loops_ == 0) fail(token.line, "'" + token.text + "' stands outside of a loop");
  return std::make_unique<Jump>(kind, token.line);
}

void Parser::parse_print(Body& body) {
  const int line = advance().line;
  while (current_.kind != TokenKind::block_end) {
    body.push_back(std::make_unique<Print>(line, parse_expression()));
    if (current_.kind != TokenKind::block_end) expect_operation(",");
  }
}

Target Parser::parse_target(bool attributes) {
  Target first = parse_target_part(attributes);
  if (!is_operation(",")) return first;
  Target tuple;
  tuple.kind = Target::Kind::tuple;
  tuple.parts.push_back(std::move(first));
  while (skip_operation(",")) {
    if (is_name("in") || is_operation(")") || current_.kind == TokenKind::block_end) break;
    tuple.parts.push_back(parse_target_part(attributes));
  }
  return tuple;
}

Target Parser::parse_target_part(bool attributes) {
  const Nest nest(*this);
  if (skip_operation("(")) {
    Target inner = parse_target(attributes);
    expect_operation(")");
    return inner;
  }
  const Token token = expect_identifier("a name to assign to");
  constexpr std::array<std::string_view, 6> constants = {"true", "false", "none", "True", "False", "None"};
  if (std::find(constants.begin(), constants.end(), token.text) != constants.end()) {
    fail(token.line, "'" + token.text + "' cannot be assigned to");
  }
  Target target;
  target.id = intern(token.text);
  if (attributes && skip_operation(".")) {
    target.kind = Target::Kind::attribute;
    target.attribute = expect_identifier("the name of an attribute").text;
    if (target.attribute.starts_with('_')) {
      unsupported(token.line, "attribute '" + target.attribute + "': no name in a namespace may begin with '_'");
    }
  } else {
    assigned_.insert(token.text);
  }
  return target;
}

}  // namespace quern::jinja
