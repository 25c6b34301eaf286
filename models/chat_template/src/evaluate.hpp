// Walks a template over its variables and writes the text.
#pragma once

#include "ast.hpp"
#include "loop_state.hpp"
#include "runtime.hpp"
#include "scope.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::jinja {

class Evaluator {
 public:
  Evaluator(const Template& source, Runtime& runtime)
      : template_(source), runtime_(runtime), root_(runtime, nullptr), output_(runtime), generated_(runtime) {}

  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void set_variable(const std::string& name, Value value);
  RenderedChat run();

 private:
  enum class Flow : std::uint8_t { next, leave_loop, next_turn };

  // Opens a scope and makes it current; at its end the outer one is current again.
  class ScopeGuard {
   public:
    ScopeGuard(Evaluator& evaluator, Scope* parent);
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;
    ~ScopeGuard();

   private:
    Evaluator& evaluator_;
    Scope* outer_;
    std::unique_ptr<Scope> scope_;
  };
  // Collects what is written into text instead of the output.
  class CaptureGuard;
  class FilteredLoop;

  // Statements.
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_branch(const Branch& branch);
  Flow execute_loop(const LoopPlace& place, const Value& iterable);
  Flow execute_turn(const Loop& loop, const Value& item, const std::shared_ptr<LoopState>& state);
  Flow execute_capture(const Capture& capture);
  Flow execute_filter_block(const FilterBlock& block);
  Flow execute_generation(const ScopedBody& generation);
  Flow execute_with(const With& with);
  void define_macro(const MacroDefinition& macro);
  Value call_loop(const LoopState& state, const Arguments& arguments);
  Value call_macro(const MacroClosure& closure, const Arguments& arguments);
  void bind_parameters(const MacroDefinition& macro, const Arguments& arguments);
  void assign(const Target& target, Value value);
  Value filtered(Value value, const std::vector<std::unique_ptr<FilterUse>>& filters);
  void write_own(std::string_view text);
  void write(const Text& text);
  /// Where what is written goes, which has room for this many bytes.
  TextBuilder& output_for(std::size_t bytes);
  void write_value(const Value& value);

  // Expressions.
  Value evaluate(const Expression& expression);
  Value evaluate_name(const Name& name);
  Value evaluate_sequence(const SequenceDisplay& display);
  Value evaluate_mapping(const MappingDisplay& display);
  Value evaluate_unary(const Unary& unary);
  Value evaluate_arithmetic(const Arithmetic& node);
  Value evaluate_logical(const Logical& logical);
  Value evaluate_comparison(const Comparison& comparison);
  Value evaluate_concatenation(const Concatenation& concatenation);
  Value evaluate_conditional(const Conditional& conditional);
  Value evaluate_slice(const Slice& slice);
  Value evaluate_call(const Call& call);
  Value evaluate_filter(const FilterUse& use, const Value& input);
  Value evaluate_test(const TestUse& use);
  Arguments evaluate_arguments(const CallArguments& arguments);
  Value call(const Value& callee, const Arguments& arguments, int line);

  const Template& template_;
  Runtime& runtime_;
  Scope root_;
  Scope* scope_ = &root_;
  std::unique_ptr<Scope> kept_;  ///< the last of the scopes that a macro may still read
  TextBuilder output_;
  TextBuilder* capture_ = nullptr;
  MarksBuilder generated_;  ///< which bytes of the output {% generation %} wrote
  bool generated_elsewhere_ = false;
  int generations_ = 0;  ///< blocks that are open; a render that fails leaves them so, and is over
};

}  // namespace quern::jinja
