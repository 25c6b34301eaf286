// One render: its limits, what it has used of them, and the makers of values that count against them.
#pragma once

#include "quern/models/chat_template.hpp"
#include "value.hpp"

#include <deque>
#include <optional>

namespace quern::jinja {

/// Nesting of containers, of expressions in the source, and of evaluation (which macros can multiply).
inline constexpr int max_value_depth = 200;
inline constexpr int max_source_depth = 200;
inline constexpr int max_evaluation_depth = 500;
/// As in Jinja's sandbox.
inline constexpr std::int64_t max_range_items = 100'000;

class Runtime {
 public:
  Runtime(const std::string& template_name, const TemplateLimits& limits, const std::optional<std::tm>& now)
      : template_name_(template_name), limits_(limits), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  void set_line(int line) noexcept { line_ = line; }
  int line() const noexcept { return line_; }
  const TemplateLimits& limits() const noexcept { return limits_; }
  const std::optional<std::tm>& now() const noexcept { return now_; }

  /// Throws Error(QUERN_BAD_MODEL): the template does what Jinja2 refuses too, or passes a limit.
  [[noreturn]] void fail(const std::string& text) const;
  /// Throws Error(QUERN_UNSUPPORTED).
  [[noreturn]] void unsupported(const std::string& text) const;
  /// Throws Error(QUERN_INVALID_ARGUMENT).
  [[noreturn]] void refuse(const std::string& text) const;
  /// Throws as Python does where an undefined value is used: fail() with the value's reason.
  [[noreturn]] void fail_undefined(const Value& value) const;

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) fail_steps();
  }
  /// Counts work on this many bytes of text.
  void step_text(std::uint64_t bytes) { step(bytes / 64); }
  /// The same, for work that looks up each code point.
  void step_characters(std::uint64_t bytes) { step(bytes / 8); }

  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) noexcept { held_ -= bytes; }

  Value text(std::string text, bool markup = false);
  /// `charge` already covers the text.
  Value charged_text(std::string text, Charge charge);
  Value list(std::vector<Value> items) { return sequence(SequenceKind::list, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(SequenceKind::tuple, std::move(items)); }
  Value sequence(SequenceKind kind, std::vector<Value> items);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  Value generator(std::vector<Value> items);
  Value mapping(std::vector<std::pair<Value, Value>> entries);
  Value new_namespace();
  Value undefined(std::string reason);
  Value callable(std::variant<MacroClosure, const GlobalFunction*, BoundMethod> target);

  void check_depth(int depth) const;

  class EvaluationDepth;

 private:
  [[noreturn]] void fail_steps() const;

  const std::string& template_name_;
  TemplateLimits limits_;
  std::optional<std::tm> now_;
  int line_ = 0;
  int evaluation_depth_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t held_ = 0;
  std::deque<Namespace> namespaces_;  // last: its values give their charges back to the members above
};

/// Held by each recursive step of an evaluation.
class Runtime::EvaluationDepth {
 public:
  explicit EvaluationDepth(Runtime& runtime) : runtime_(runtime) {
    if (runtime.evaluation_depth_ >= max_evaluation_depth) {
      runtime.fail("evaluation nests deeper than " + std::to_string(max_evaluation_depth) + " levels");
    }
    ++runtime.evaluation_depth_;
  }
  EvaluationDepth(const EvaluationDepth&) = delete;
  EvaluationDepth& operator=(const EvaluationDepth&) = delete;
  ~EvaluationDepth() { --runtime_.evaluation_depth_; }

 private:
  Runtime& runtime_;
};

/// Text that grows under the memory limit.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), charge_(runtime, 0) {}

  void append(std::string_view text) {
    runtime_.step_text(text.size());
    charge_.grow(text.size());
    text_ += text;
  }
  std::size_t size() const noexcept { return text_.size(); }
  Value finish() { return runtime_.charged_text(std::move(text_), std::move(charge_)); }

 private:
  Runtime& runtime_;
  Charge charge_;
  std::string text_;
};

/// Arguments of one call, evaluated.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

/// Arguments put in the order of a function's parameters.
class Parameters {
 public:
  /// `what` names the function in errors, as in "filter 'join'"; the first `required` names must be given.
  Parameters(Runtime& runtime, std::string_view what, const Arguments& arguments,
             std::initializer_list<std::string_view> names, std::size_t required = 0);

  /// Null where the call does not give it.
  const Value* find(std::size_t index) const noexcept { return slots_[index]; }
  const Value& at(std::size_t index) const noexcept { return *slots_[index]; }
  bool truth(std::size_t index, bool otherwise) const;
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  /// The text of a str argument; anything else is a type error.
  std::string_view string(std::size_t index, std::string_view otherwise = {}) const;

 private:
  Runtime& runtime_;
  std::string what_;
  std::vector<const Value*> slots_;
};

}  // namespace quern::jinja
