// Tokens, names and the checks that need the whole template.
#include "parser.hpp"

#include "library.hpp"
#include "quern/graph/stack.hpp"
#include "text.hpp"

namespace quern::jinja {

namespace {

// The most that one token adds to the tree, with what points to it: a node, its slot in a vector that has doubled, and of
// a name the entries in the table of names.
constexpr std::uint64_t bytes_of_token = 256;
static_assert(sizeof(Call) + block_overhead + 2 * sizeof(ExpressionPtr) <= bytes_of_token);
static_assert(sizeof(Slice) + block_overhead + 2 * sizeof(ExpressionPtr) <= bytes_of_token);
static_assert(sizeof(FilterUse) + block_overhead + 2 * sizeof(ExpressionPtr) <= bytes_of_token);
static_assert(sizeof(Name) + 2 * block_overhead + 4 * sizeof(std::string) + 4 * sizeof(void*) <= bytes_of_token);

}  // namespace

std::shared_ptr<const Template> Parser::parse(std::string_view source, std::string name, const TemplateLimits& limits) {
  auto out = std::make_shared<Template>();
  out->name = std::move(name);
  TemplateLimits reading = limits;
  reading.steps = UINT64_MAX;  // the source is short
  Budget budget(out->name, reading);
  budget.take(2 * source.size());
  Parser parser(source, *out, budget);
  out->loop_id = parser.intern("loop");
  out->body = parser.parse_body({}, "", 1);
  parser.mark_unknown_functions();
  out->bytes = budget.held();
  return out;
}

Parser::Nest::Nest(Parser& parser) : parser_(parser) {
  if (parser.nest_ >= max_source_depth) {
    parser.fail(parser.current_.line, concat("the template nests deeper than ", max_source_depth, " levels"));
  }
  require_stack(stack_for_a_level, "this part of the chat template");
  ++parser.nest_;
}

Token Parser::advance() {
  budget_.take(bytes_of_token + current_.text.size());
  Token taken = std::move(current_);
  if (has_ahead_) {
    current_ = std::move(ahead_);
    has_ahead_ = false;
  } else {
    current_ = lexer_.next();
  }
  return taken;
}

const Token& Parser::ahead() {
  if (!has_ahead_) {
    ahead_ = lexer_.next();
    has_ahead_ = true;
  }
  return ahead_;
}

bool Parser::is_operation(std::string_view text) const noexcept { return current_.kind == TokenKind::operation && current_.text == text; }

bool Parser::is_name(std::string_view text) const noexcept { return current_.kind == TokenKind::name && current_.text == text; }

bool Parser::skip_operation(std::string_view text) {
  if (!is_operation(text)) return false;
  advance();
  return true;
}

bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  advance();
  return true;
}

void Parser::expect_operation(std::string_view text) {
  if (!skip_operation(text)) fail(current_.line, concat("expected '", text, "', found ", describe(current_)));
}

void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail(current_.line, concat("expected '", text, "', found ", describe(current_)));
}

void Parser::expect(TokenKind kind, std::string_view what) {
  if (current_.kind != kind) fail(current_.line, concat("expected ", what, ", found ", describe(current_)));
  advance();
}

Token Parser::expect_identifier(std::string_view what) {
  if (current_.kind != TokenKind::name) fail(current_.line, concat("expected ", what, ", found ", describe(current_)));
  return advance();
}

std::string Parser::describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::variable_begin: return "'{{'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::block_begin: return "'{%'";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::name:
    case TokenKind::operation: return "'" + token.text + "'";
    case TokenKind::string: return "a string";
    case TokenKind::integer:
    case TokenKind::real: return "a number";
    case TokenKind::end: break;
  }
  return "the end of the template";
}

void Parser::fail(int line, const std::string& text) const { fail_at(QUERN_BAD_MODEL, out_.name, line, text); }

void Parser::unsupported(int line, const std::string& text) const { fail_at(QUERN_UNSUPPORTED, out_.name, line, text); }

NameId Parser::intern(const std::string& name) {
  const auto [entry, added] = out_.name_ids.try_emplace(name, static_cast<NameId>(out_.names.size()));
  if (added) out_.names.push_back(name);
  return entry->second;
}

void Parser::deepen(Expression& parent, const Expression& child) {
  if (child.depth >= max_source_depth) { fail(parent.line, concat("an expression nests deeper than ", max_source_depth, " levels")); }
  parent.depth = std::max(parent.depth, child.depth + 1);
}

void Parser::attach(Expression& parent, ExpressionPtr& slot, ExpressionPtr child) {
  deepen(parent, *child);
  slot = std::move(child);
}

void Parser::attach(Expression& parent, std::vector<ExpressionPtr>& slot, ExpressionPtr child) {
  deepen(parent, *child);
  slot.push_back(std::move(child));
}

// Such a call is refused when it is reached, as Jinja2 does it: a template may hold branches for what is never asked.
void Parser::mark_unknown_functions() const {
  for (const auto& [name, call] : called_) {
    budget_.step_text(name.size());
    budget_.step();
    call->unknown_name = find_global(name) == nullptr && !assigned_.contains(name);
  }
}

}  // namespace quern::jinja
