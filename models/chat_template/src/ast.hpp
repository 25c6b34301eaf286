// A parsed template: expressions and statements as the parser leaves them, immutable from then on.
//
// Every node knows its depth, and the parser refuses more than max_source_depth, so walks and destructors are
// bounded.
#pragma once

#include "value.hpp"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace quern::jinja {

struct Filter;
struct Test;

using NameId = std::uint32_t;

enum class ExpressionKind : std::uint8_t {
  constant,
  name,
  sequence,
  mapping,
  negate,
  plus,
  logical_not,
  arithmetic,
  logical_and,
  logical_or,
  comparison,
  concatenation,
  conditional,
  attribute,
  subscript,
  slice,
  call,
  filter,
  test
};

struct Expression {
  Expression(ExpressionKind k, int l) noexcept : kind(k), line(l) {}
  virtual ~Expression() = default;
  ExpressionKind kind;
  int line;
  int depth = 1;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Constant final : Expression {
  Constant(int l, Value v) : Expression(ExpressionKind::constant, l), value(std::move(v)) {}
  Value value;
};
struct Name final : Expression {
  Name(int l, NameId i) noexcept : Expression(ExpressionKind::name, l), id(i) {}
  NameId id;
};
struct SequenceDisplay final : Expression {
  SequenceDisplay(int l, SequenceKind k) noexcept : Expression(ExpressionKind::sequence, l), sequence_kind(k) {}
  SequenceKind sequence_kind;
  std::vector<ExpressionPtr> items;
};
struct MappingDisplay final : Expression {
  explicit MappingDisplay(int l) noexcept : Expression(ExpressionKind::mapping, l) {}
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
/// negate, plus and logical_not.
struct Unary final : Expression {
  Unary(ExpressionKind k, int l, ExpressionPtr o) noexcept : Expression(k, l), operand(std::move(o)) {}
  ExpressionPtr operand;
};
enum class ArithmeticOp : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Arithmetic final : Expression {
  Arithmetic(int l, ArithmeticOp o, ExpressionPtr a, ExpressionPtr b) noexcept
      : Expression(ExpressionKind::arithmetic, l), op(o), left(std::move(a)), right(std::move(b)) {}
  ArithmeticOp op;
  ExpressionPtr left, right;
};
/// logical_and and logical_or.
struct Logical final : Expression {
  Logical(ExpressionKind k, int l, ExpressionPtr a, ExpressionPtr b) noexcept : Expression(k, l), left(std::move(a)), right(std::move(b)) {}
  ExpressionPtr left, right;
};
enum class CompareOp : std::uint8_t { eq, ne, lt, le, gt, ge, in, not_in };
struct Comparison final : Expression {
  Comparison(int l, ExpressionPtr f) noexcept : Expression(ExpressionKind::comparison, l), first(std::move(f)) {}
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Concatenation final : Expression {
  explicit Concatenation(int l) noexcept : Expression(ExpressionKind::concatenation, l) {}
  std::vector<ExpressionPtr> parts;
};
struct Conditional final : Expression {
  explicit Conditional(int l) noexcept : Expression(ExpressionKind::conditional, l) {}
  ExpressionPtr condition, chosen, otherwise;  ///< `otherwise` may be null
};
struct Attribute final : Expression {
  Attribute(int l, ExpressionPtr o, std::string n) noexcept
      : Expression(ExpressionKind::attribute, l), object(std::move(o)), attribute(std::move(n)) {}
  ExpressionPtr object;
  std::string attribute;
};
struct Subscript final : Expression {
  Subscript(int l, ExpressionPtr o, ExpressionPtr i) noexcept
      : Expression(ExpressionKind::subscript, l), object(std::move(o)), index(std::move(i)) {}
  ExpressionPtr object, index;
};
struct Slice final : Expression {
  explicit Slice(int l) noexcept : Expression(ExpressionKind::slice, l) {}
  ExpressionPtr object, start, stop, step;  ///< the last three may be null
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<Value, ExpressionPtr>> keyword;  ///< names as str
  ExpressionPtr star, double_star;                       ///< may be null
};
struct Call final : Expression {
  Call(int l, ExpressionPtr c) noexcept : Expression(ExpressionKind::call, l), callee(std::move(c)) {}
  ExpressionPtr callee;
  CallArguments arguments;
  bool unknown_name = false;  ///< the callee is a name that neither the template nor Quern gives a function
};
struct FilterUse final : Expression {
  FilterUse(int l, const Filter* f, ExpressionPtr i) noexcept : Expression(ExpressionKind::filter, l), filter(f), input(std::move(i)) {}
  const Filter* filter;  ///< null for one that is not offered
  std::string unknown;   ///< the name of that
  ExpressionPtr input;   ///< null in a filter block and a block set, whose text is the input
  CallArguments arguments;
};
struct TestUse final : Expression {
  TestUse(int l, const Test* t, ExpressionPtr i) noexcept : Expression(ExpressionKind::test, l), test(t), input(std::move(i)) {}
  const Test* test;     ///< null for one that is not offered
  std::string unknown;  ///< the name of that
  ExpressionPtr input;
  CallArguments arguments;
};

/// What 'set', 'for' and 'with' assign to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : std::uint8_t { name, attribute, tuple } kind = Kind::name;
  NameId id = 0;
  std::string attribute;
  std::vector<Target> parts;
};

enum class StatementKind : std::uint8_t {
  text,
  print,
  branch,
  loop,
  assign,
  capture,
  macro,
  with,
  filter_block,
  generation,
  break_loop,
  continue_loop
};

struct Statement {
  Statement(StatementKind k, int l) noexcept : kind(k), line(l) {}
  virtual ~Statement() = default;
  StatementKind kind;
  int line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

struct TextOutput final : Statement {
  TextOutput(int l, std::string t) noexcept : Statement(StatementKind::text, l), text(std::move(t)) {}
  std::string text;
};
struct Print final : Statement {
  Print(int l, ExpressionPtr e) noexcept : Statement(StatementKind::print, l), expression(std::move(e)) {}
  ExpressionPtr expression;
};
struct Branch final : Statement {
  explicit Branch(int l) noexcept : Statement(StatementKind::branch, l) {}
  std::vector<std::pair<ExpressionPtr, Body>> arms;
  Body otherwise;
};
struct Loop final : Statement {
  explicit Loop(int l) noexcept : Statement(StatementKind::loop, l) {}
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  ///< may be null
  bool recursive = false;   ///< a call of the loop variable runs it over other items
  Body body, otherwise;
};
struct Assign final : Statement {
  explicit Assign(int l) noexcept : Statement(StatementKind::assign, l) {}
  Target target;
  ExpressionPtr value;
};
/// {% set x %}...{% endset %}
struct Capture final : Statement {
  explicit Capture(int l) noexcept : Statement(StatementKind::capture, l) {}
  Target target;
  std::vector<std::unique_ptr<FilterUse>> filters;  ///< applied in this order
  Body body;
};
struct MacroDefinition final : Statement {
  explicit MacroDefinition(int l) noexcept : Statement(StatementKind::macro, l) {}
  NameId id = 0;
  std::string name;
  struct Parameter {
    NameId id;
    std::string name;
    ExpressionPtr otherwise;  ///< may be null
  };
  std::vector<Parameter> parameters;
  std::optional<NameId> varargs, kwargs;  ///< set if the body uses that name
  Body body;
};
struct With final : Statement {
  explicit With(int l) noexcept : Statement(StatementKind::with, l) {}
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
};
struct FilterBlock final : Statement {
  explicit FilterBlock(int l) noexcept : Statement(StatementKind::filter_block, l) {}
  std::vector<std::unique_ptr<FilterUse>> filters;
  Body body;
};
/// {% generation %}: passes its text through, and keeps its own variables.
struct ScopedBody final : Statement {
  explicit ScopedBody(int l) noexcept : Statement(StatementKind::generation, l) {}
  Body body;
};
struct Jump final : Statement {
  using Statement::Statement;
};

struct Template {
  std::string name;                ///< opens every error text
  std::vector<std::string> names;  ///< by NameId
  std::unordered_map<std::string, NameId> name_ids;
  Body body;

  NameId loop_id = 0;       ///< of the name 'loop'
  std::uint64_t bytes = 0;  ///< that the tree holds, or a little more
};

}  // namespace quern::jinja
