// Statements: output, branches, loops, assignments and macros.
#include "evaluate.hpp"

#include "library.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::jinja {

Evaluator::ScopeGuard::ScopeGuard(Evaluator& evaluator, Scope* parent)
    : evaluator_(evaluator), outer_(evaluator.scope_), scope_(std::make_unique<Scope>(evaluator.runtime_, parent)) {
  evaluator.scope_ = scope_.get();
}

Evaluator::ScopeGuard::~ScopeGuard() {
  evaluator_.scope_ = outer_;
  if (!scope_->captured()) return;
  scope_->kept_before = std::move(evaluator_.kept_);
  evaluator_.kept_ = std::move(scope_);
}

Evaluator::~Evaluator() {
  while (kept_ != nullptr) kept_ = std::move(kept_->kept_before);  // one after the other: there may be a million
}

class Evaluator::CaptureGuard {
 public:
  explicit CaptureGuard(Evaluator& evaluator) : evaluator_(evaluator), outer_(evaluator.capture_), builder_(evaluator.runtime_) {
    evaluator.capture_ = &builder_;
  }
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;
  ~CaptureGuard() { evaluator_.capture_ = outer_; }
  Value finish() { return builder_.finish(); }

 private:
  Evaluator& evaluator_;
  TextBuilder* outer_;
  TextBuilder builder_;
};

// The items of a loop that meet its condition, found as late as Jinja finds them.
class Evaluator::FilteredLoop final : public LoopSource {
 public:
  FilteredLoop(Evaluator& evaluator, const Loop& loop, std::shared_ptr<Iterator> items)
      : evaluator_(evaluator), loop_(loop), items_(std::move(items)), scope_(evaluator.scope_) {}

  std::optional<Value> pull() override {
    const Runtime::EvaluationDepth depth(evaluator_.runtime_);  // a condition may ask a loop that is filtered itself
    while (items_->next < items_->source->items.size()) {
      evaluator_.runtime_.step();
      const Value item = items_->source->items[items_->next++];
      if (!loop_.condition) return item;
      const ScopeGuard scope(evaluator_, scope_);
      evaluator_.assign(loop_.target, item);
      if (truth(evaluator_.evaluate(*loop_.condition))) return item;
    }
    return std::nullopt;
  }

 private:
  Evaluator& evaluator_;
  const Loop& loop_;
  std::shared_ptr<Iterator> items_;
  Scope* scope_;
};

void Evaluator::set_variable(const std::string& name, Value value) {
  const auto entry = template_.name_ids.find(name);
  if (entry != template_.name_ids.end()) root_.set(runtime_, entry->second, std::move(value));
}

RenderedChat Evaluator::run() {
  execute(template_.body);
  RenderedChat chat = output_.take();
  chat.generated = generated_.take();
  chat.generated_elsewhere = generated_elsewhere_;
  return chat;
}

TextBuilder& Evaluator::output_for(std::size_t bytes) {
  if (capture_ != nullptr) return *capture_;
  const std::uint64_t limit = runtime_.limits().output_bytes;
  if (bytes > limit || output_.size() > limit - bytes) {
    runtime_.fail(concat("the rendered text is longer than the limit of ", limit, " bytes"));
  }
  return output_;
}

void Evaluator::write_own(std::string_view text) { output_for(text.size()).append_own(text); }

void Evaluator::write(const Text& text) { output_for(text.text.size()).append(text); }

void Evaluator::write_value(const Value& value) {
  if (value.is_undefined()) return;
  const Value text = to_text(runtime_, value);
  write(*text.text());
}

Evaluator::Flow Evaluator::execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Statement& statement) {
  const Runtime::EvaluationDepth depth(runtime_);
  runtime_.step();
  runtime_.set_line(statement.line);
  switch (statement.kind) {
    case StatementKind::text: write_own(static_cast<const TextOutput&>(statement).text); return Flow::next;
    case StatementKind::print: write_value(evaluate(*static_cast<const Print&>(statement).expression)); return Flow::next;
    case StatementKind::branch: return execute_branch(static_cast<const Branch&>(statement));
    case StatementKind::loop: {
      const auto& node = static_cast<const Loop&>(statement);
      return execute_loop({&node, scope_}, evaluate(*node.iterable));
    }
    case StatementKind::assign: {
      const auto& node = static_cast<const Assign&>(statement);
      assign(node.target, evaluate(*node.value));
      return Flow::next;
    }
    case StatementKind::capture: return execute_capture(static_cast<const Capture&>(statement));
    case StatementKind::macro: define_macro(static_cast<const MacroDefinition&>(statement)); return Flow::next;
    case StatementKind::with: return execute_with(static_cast<const With&>(statement));
    case StatementKind::filter_block: return execute_filter_block(static_cast<const FilterBlock&>(statement));
    case StatementKind::generation: return execute_generation(static_cast<const ScopedBody&>(statement));
    case StatementKind::break_loop: return Flow::leave_loop;
    case StatementKind::continue_loop: break;
  }
  return Flow::next_turn;
}

Evaluator::Flow Evaluator::execute_branch(const Branch& branch) {
  for (const auto& [condition, body] : branch.arms) {
    if (truth(evaluate(*condition))) return execute(body);
  }
  return execute(branch.otherwise);
}

Evaluator::Flow Evaluator::execute_loop(const LoopPlace& place, const Value& iterable) {
  const Loop& loop = *place.loop;
  FilteredLoop source(*this, loop, iterate(runtime_, iterable));
  const auto length = loop.condition ? std::nullopt : length_of(runtime_, iterable);
  const auto state = std::make_shared<LoopState>(runtime_, source, length, iterable.depth(), place);
  runtime_.check_depth(state->depth());
  // Whoever keeps the loop variable must not reach into this frame after it ends, however it ends.
  struct Detach {
    LoopState& state;
    ~Detach() { state.detach(); }
  } detach{*state};
  bool completed = false;  // as in Jinja, a turn that ends in break or continue does not count against 'else'
  while (state->advance()) {
    const Flow flow = execute_turn(loop, state->current(), state);
    if (flow == Flow::leave_loop) break;
    completed = completed || flow == Flow::next;
  }
  if (completed || loop.otherwise.empty()) return Flow::next;
  const ScopeGuard scope(*this, scope_);
  return execute(loop.otherwise);
}

Evaluator::Flow Evaluator::execute_turn(const Loop& loop, const Value& item, const std::shared_ptr<LoopState>& state) {
  runtime_.step();
  const ScopeGuard scope(*this, scope_);
  scope_->set(runtime_, template_.loop_id, state);
  assign(loop.target, item);
  return execute(loop.body);
}

Value Evaluator::filtered(Value value, const std::vector<std::unique_ptr<FilterUse>>& filters) {
  for (const auto& use : filters) value = evaluate_filter(*use, value);
  return value;
}

Evaluator::Flow Evaluator::execute_capture(const Capture& capture) {
  Value value;
  {
    const ScopeGuard scope(*this, scope_);
    CaptureGuard captured(*this);
    const Flow flow = execute(capture.body);
    if (flow != Flow::next) return flow;
    value = captured.finish();
  }
  assign(capture.target, filtered(std::move(value), capture.filters));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute_filter_block(const FilterBlock& block) {
  Value value;
  {
    const ScopeGuard scope(*this, scope_);
    CaptureGuard captured(*this);
    const Flow flow = execute(block.body);
    if (flow != Flow::next) return flow;
    value = captured.finish();
  }
  write_value(filtered(std::move(value), block.filters));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute_generation(const ScopedBody& generation) {
  const ScopeGuard scope(*this, scope_);
  const std::size_t begin = output_.size();
  const bool is_outermost = generations_++ == 0;  // what lies in a block is its own, wherever the text goes on its way
  if (is_outermost && capture_ != nullptr) generated_elsewhere_ = true;
  const Flow flow = execute(generation.body);
  --generations_;
  if (is_outermost && capture_ == nullptr && output_.size() > begin) generated_.add(begin, output_.size());
  return flow;
}

Evaluator::Flow Evaluator::execute_with(const With& with) {
  Counted<Value> values(runtime_);  // all of them first: none sees another
  for (const auto& binding : with.bindings) values.push_back(evaluate(*binding.second));
  const ScopeGuard scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(with.bindings[i].first, std::move(values[i]));
  return execute(with.body);
}

void Evaluator::assign(const Target& target, Value value) {
  if (target.kind == Target::Kind::name) return scope_->set(runtime_, target.id, std::move(value));
  if (target.kind == Target::Kind::attribute) {
    const Value* holder = scope_->find(runtime_, target.id);
    if (holder == nullptr || holder->names() == nullptr) {
      const std::string name = shown(template_.names[target.id]);
      runtime_.fail(concat("'", name, ".", shown(target.attribute), "' is set, but '", name, "' is not a namespace"));
    }
    return holder->names()->set(runtime_, target.attribute, std::move(value));
  }
  Counted<Value> items = items_of(runtime_, value);
  if (items.size() != target.parts.size()) { runtime_.fail(concat(target.parts.size(), " names are set from ", items.size(), " values")); }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], std::move(items[i]));
}

void Evaluator::define_macro(const MacroDefinition& macro) {
  scope_->mark_captured();
  scope_->set(runtime_, macro.id, runtime_.callable(MacroClosure{&macro, scope_}));
}

// Sets the parameters in the current scope, in order, so that a default may use those before it.
void Evaluator::bind_parameters(const MacroDefinition& macro, const Arguments& arguments) {
  const std::size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.varargs) {
    runtime_.fail(concat("macro '", shown(macro.name), "' takes at most ", count, " arguments and got ", arguments.positional.size()));
  }
  Counted<char> used(arguments.keyword.size(), 0, runtime_);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& parameter = macro.parameters[i];
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
    for (std::size_t k = 0; given == nullptr && k < arguments.keyword.size(); ++k) {
      const std::string_view name = arguments.keyword[k].text();
      runtime_.step();
      if (name.size() != parameter.name.size()) continue;
      runtime_.step_text(name.size());
      if (name != parameter.name) continue;
      given = &arguments.keyword[k].value;
      used[k] = 1;
    }
    runtime_.step();
    if (given != nullptr) {
      scope_->set(runtime_, parameter.id, *given);
    } else if (parameter.otherwise) {
      scope_->set(runtime_, parameter.id, evaluate(*parameter.otherwise));
    } else {
      scope_->set(runtime_, parameter.id, runtime_.undefined("parameter '" + shown(parameter.name) + "' was not provided"));
    }
  }
  Entries rest(runtime_);
  for (std::size_t k = 0; k < used.size(); ++k) {
    runtime_.step();
    if (used[k] != 0) continue;
    const Arguments::Keyword& keyword = arguments.keyword[k];
    if (!macro.kwargs) runtime_.fail(concat("macro '", shown(macro.name), "' has no argument '", shown(keyword.text()), "'"));
    rest.emplace_back(keyword.name, keyword.value);
  }
  if (macro.kwargs) scope_->set(runtime_, *macro.kwargs, runtime_.mapping(std::move(rest)));
  if (macro.varargs) {
    Counted<Value> more(runtime_);
    for (std::size_t i = count; i < arguments.positional.size(); ++i) {
      runtime_.step();
      more.push_back(arguments.positional[i]);
    }
    scope_->set(runtime_, *macro.varargs, runtime_.tuple(std::move(more)));
  }
}

Value Evaluator::call_loop(const LoopState& state, const Arguments& arguments) {
  const LoopPlace* place = state.place();
  if (place == nullptr) runtime_.unsupported("a call of the loop variable of a loop that has ended is not offered");
  if (!place->loop->recursive) runtime_.fail("the loop variable of a loop that is not marked 'recursive' is called");
  if (arguments.positional.size() != 1 || !arguments.keyword.empty())
    runtime_.fail(concat("the loop variable takes 1 argument without a name and got ", arguments.positional.size(), " and ",
                         arguments.keyword.size(), " with names"));
  const LoopPlace inner{place->loop, place->scope, place->level + 1};
  const Runtime::EvaluationDepth depth(runtime_);
  const ScopeGuard scope(*this, inner.scope);
  CaptureGuard captured(*this);
  execute_loop(inner, arguments.positional[0]);
  return captured.finish();
}

Value Evaluator::call_macro(const MacroClosure& closure, const Arguments& arguments) {
  const Runtime::EvaluationDepth depth(runtime_);  // its frames and those of its caller take as much stack as an expression's
  const ScopeGuard scope(*this, closure.scope);
  CaptureGuard captured(*this);
  bind_parameters(*closure.definition, arguments);
  execute(closure.definition->body);
  return captured.finish();
}

}  // namespace quern::jinja
