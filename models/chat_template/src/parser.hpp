// Source to Template: recursive descent with precedence climbing, by Jinja's grammar.
#pragma once

#include "ast.hpp"
#include "lexer.hpp"

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

class Parser {
 public:
  /// `source` is valid UTF-8; the result's name is `name`. Of the limits the time and the memory hold here.
  static std::shared_ptr<const Template> parse(std::string_view source, std::string name, const TemplateLimits& limits);

 private:
  Parser(std::string_view source, Template& out, Budget& budget) : out_(out), budget_(budget), lexer_(source, budget) {
    current_ = lexer_.next();
  }

  // Counts nesting of the source while it is being read.
  class Nest {
   public:
    explicit Nest(Parser& parser);
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ~Nest() { --parser_.nest_; }

   private:
    Parser& parser_;
  };

  enum class TupleRule : std::uint8_t { full, without_condition, parenthesised };

  // Tokens.
  Token advance();
  const Token& ahead();
  bool is_operation(std::string_view text) const noexcept;
  bool is_name(std::string_view text) const noexcept;
  bool skip_operation(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operation(std::string_view text);
  void expect_name(std::string_view text);
  void expect(TokenKind kind, std::string_view what);
  Token expect_identifier(std::string_view what);
  std::string describe(const Token& token) const;
  [[noreturn]] void fail(int line, const std::string& text) const;
  [[noreturn]] void unsupported(int line, const std::string& text) const;
  NameId intern(const std::string& name);

  // Statements.
  Body parse_body(std::initializer_list<std::string_view> ends, std::string_view opened_by, int opened_at);
  Body parse_block_body(std::initializer_list<std::string_view> ends, std::string_view tag, int line);
  void parse_statement(Body& body);
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_generation();
  std::unique_ptr<Statement> parse_jump(StatementKind kind);
  void parse_print(Body& body);
  Target parse_target(bool attributes);
  Target parse_target_part(bool attributes);
  std::vector<std::unique_ptr<FilterUse>> parse_filter_chain(bool starts_inline);

  // Expressions.
  ExpressionPtr parse_expression();
  ExpressionPtr parse_tuple(TupleRule rule);
  ExpressionPtr parse_binary(int lowest);
  ExpressionPtr parse_comparison(ExpressionPtr first);
  ExpressionPtr parse_concatenation(ExpressionPtr first);
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_list();
  ExpressionPtr parse_mapping();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr node);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  std::unique_ptr<FilterUse> parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  void parse_arguments(Expression& owner, CallArguments& arguments);
  std::string parse_dotted_name(std::string_view what);
  int operation_level() const noexcept;

  // Puts `child` into `slot` of `parent` and checks the depth that results.
  void attach(Expression& parent, ExpressionPtr& slot, ExpressionPtr child);
  void attach(Expression& parent, std::vector<ExpressionPtr>& slot, ExpressionPtr child);
  void deepen(Expression& parent, const Expression& child);

  void mark_unknown_functions() const;

  Template& out_;
  Budget& budget_;
  Lexer lexer_;
  Token current_;
  Token ahead_;
  bool has_ahead_ = false;
  int nest_ = 0;
  int loops_ = 0;  ///< that a break at this place could leave
  std::vector<MacroDefinition*> macros_;
  std::vector<std::pair<std::string, Call*>> called_;  ///< names called as functions
  std::set<std::string> assigned_;                     ///< names given a value somewhere in the template
};

}  // namespace quern::jinja
