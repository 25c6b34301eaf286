// One render: its limits, what it has used of them, and the makers of values that count against them.
#pragma once

#include "quern/models/chat_template.hpp"
#include "budget.hpp"
#include "text.hpp"
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

class Runtime : public Budget {
 public:
  Runtime(const std::string& template_name, const TemplateLimits& limits, const std::optional<std::tm>& now)
      : Budget(template_name, limits), now_(now) {}
  ~Runtime();

  const std::optional<std::tm>& now() const noexcept { return now_; }

  /// Throws as Python does where an undefined value is used: fail() with the value's reason.
  [[noreturn]] void fail_undefined(const Value& value) const;

  /// A copy of the text, which is counted before it is made. A TextBuilder makes what is put together.
  Value text(std::string_view text, bool markup = false);
  /// `charge` already covers the text and its spare room.
  Value charged_text(std::string text, Charge charge, bool markup = false);
  Value list(Counted<Value> items) { return sequence(SequenceKind::list, std::move(items)); }
  Value tuple(Counted<Value> items) { return sequence(SequenceKind::tuple, std::move(items)); }
  Value tuple(std::initializer_list<Value> items) { return tuple(Counted<Value>(items, *this)); }
  Value sequence(SequenceKind kind, Counted<Value> items);
  Value range(std::int64_t start, std::int64_t stop, std::int64_t step);
  Value generator(Counted<Value> items);
  Value mapping(Entries entries);
  Value new_namespace();
  /// `reason` is short: whoever makes it cuts what a template supplies.
  Value undefined(std::string reason);
  Value callable(std::variant<MacroClosure, const GlobalFunction*, BoundMethod> target);

  void check_depth(int depth) const;

  class EvaluationDepth;

 private:
  std::optional<std::tm> now_;
  int evaluation_depth_ = 0;
  std::deque<Namespace> namespaces_;  // last: its values give their charges back to the budget
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

  Runtime& runtime() const noexcept { return runtime_; }
  void append(std::string_view text) {
    runtime_.step_text(text.size());
    make_room(text.size());
    text_ += text;
  }
  /// `text` this many times.
  void append(std::uint64_t times, std::string_view text);
  /// One code point. Whoever walks over a text counts the steps.
  void put(char32_t code_point) {
    make_room(4);
    append_code_point(text_, code_point);
  }
  /// Makes room for this many more bytes and no others, where the size is known.
  void reserve(std::uint64_t bytes);
  std::size_t size() const noexcept { return text_.size(); }
  std::string_view view() const noexcept { return text_; }
  Value finish(bool markup = false);
  /// The text alone; its memory does not count any more.
  std::string take() { return std::move(text_); }

 private:
  void make_room(std::size_t bytes) {
    if (text_.capacity() - text_.size() < bytes) grow(bytes);
  }
  void grow(std::size_t bytes);

  Runtime& runtime_;
  Charge charge_;
  std::string text_;
};

/// Arguments of one call, evaluated. Names are shared texts: none is copied.
struct Arguments {
  struct Keyword {
    Value name;  ///< a str
    Value value;
    std::string_view text() const { return name.text()->text; }
  };

  explicit Arguments(Budget& budget) : positional(budget), keyword(budget) {}

  Counted<Value> positional;
  Counted<Keyword> keyword;
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
