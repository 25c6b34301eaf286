// One render: its limits, what it has used of them, and the makers of values that count against them.
#pragma once

#include "quern/models/chat_template.hpp"
#include "budget.hpp"
#include "text.hpp"
#include "value.hpp"
#include "quern/graph/stack.hpp"

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

  /// A copy of a text that came from outside the template, or of which nothing better is known: foreign as a whole. It
  /// is counted before it is made. A TextBuilder makes what is put together.
  Value text(std::string_view text) { return marked_text(text, Marks::all_foreign(), false); }
  /// The template's own text.
  Value own_text(std::string_view text) { return marked_text(text, Marks(), false); }
  /// Bytes of `text`, with their marks.
  Value piece(const Text& text, std::string_view part);
  /// Bytes of `text`, whose bounds another text has decided: foreign as a whole if that one is not the template's.
  Value piece_by(const Text& text, std::string_view part, const Text& decider) {
    return decider.marks.none() ? piece(text, part) : this->text(part);
  }
  Value marked_text(std::string_view text, Marks marks, bool markup);
  /// `charge` already covers the text, its spare room and its marks.
  Value charged_text(std::string text, Marks marks, Charge charge, bool markup = false);
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
    require_stack(stack_for_a_level, "this part of the chat template");
    ++runtime.evaluation_depth_;
  }
  EvaluationDepth(const EvaluationDepth&) = delete;
  EvaluationDepth& operator=(const EvaluationDepth&) = delete;
  ~EvaluationDepth() { --runtime_.evaluation_depth_; }

 private:
  Runtime& runtime_;
};

/// Which parts of a growing text are foreign.
class MarksBuilder {
 public:
  explicit MarksBuilder(Runtime& runtime) : runtime_(runtime), charge_(runtime, 0) {}

  /// Bytes `begin` to `end` are foreign; a seam if there are none. In the order of the text.
  void add(std::size_t begin, std::size_t end) {
    if (!ranges_.empty() && ranges_.back().end >= begin) {
      ranges_.back().end = std::max(ranges_.back().end, end);
    } else {
      add_range({begin, end});
    }
  }
  /// Behind the text so far, which has `size` bytes, comes `part` of `source`.
  void add_part(std::size_t size, const Text& source, std::string_view part);
  /// `part` of `source` would follow and does not.
  void leave_out(std::size_t size, const Text& source, std::string_view part);
  void clear() noexcept { ranges_.clear(); }

  std::vector<ForeignRange> take() noexcept { return std::move(ranges_); }
  Charge take_charge() noexcept { return std::move(charge_); }

 private:
  void add_range(ForeignRange range);

  Runtime& runtime_;
  Charge charge_;
  std::vector<ForeignRange> ranges_;
};

/// Text that grows under the memory limit. Each part is foreign unless it is said to be the template's own.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), charge_(runtime, 0), marks_(runtime) {}

  Runtime& runtime() const noexcept { return runtime_; }
  void append(std::string_view text) {
    if (!text.empty()) marks_.add(text_.size(), text_.size() + text.size());
    append_own(text);
  }
  /// The template's own text.
  void append_own(std::string_view text) {
    runtime_.step_text(text.size());
    make_room(text.size());
    text_ += text;
  }
  /// With its marks.
  void append(const Text& text) { append(text, text.text); }
  /// Bytes of `text`, with their marks.
  void append(const Text& text, std::string_view part) {
    marks_.add_part(text_.size(), text, part);
    append_own(part);
  }
  /// `text` this many times.
  void append(std::uint64_t times, std::string_view text) {
    const std::size_t begin = text_.size();
    repeat(times, text);
    if (text_.size() > begin) marks_.add(begin, text_.size());
  }
  void append_own(std::uint64_t times, std::string_view text) { repeat(times, text); }
  /// Foreign as a whole if anything of it is.
  void append(std::uint64_t times, const Text& text) {
    if (text.marks.none()) {
      repeat(times, text.text);
    } else {
      append(times, text.text);
    }
  }
  /// Bytes of `text` are left out here: a seam where any of them is foreign.
  void leave_out(const Text& text, std::string_view part) { marks_.leave_out(text_.size(), text, part); }
  /// One code point. Whoever walks over a text counts the steps.
  void put(char32_t code_point) {
    make_room(4);
    const std::size_t begin = text_.size();
    append_code_point(text_, code_point);
    marks_.add(begin, text_.size());
  }
  /// All that was appended was made of `source`: the template's own if that is, or else foreign.
  void made_of(const Text& source) {
    marks_.clear();
    if (!source.marks.none()) marks_.add(0, text_.size());
  }
  /// Makes room for this many more bytes and no others, where the size is known.
  void reserve(std::uint64_t bytes);
  std::size_t size() const noexcept { return text_.size(); }
  std::string_view view() const noexcept { return text_; }
  Value finish(bool markup = false);
  /// The text and its foreign ranges; their memory does not count any more.
  RenderedChat take() { return {std::move(text_), marks_.take()}; }

 private:
  void repeat(std::uint64_t times, std::string_view text);
  void make_room(std::size_t bytes) {
    if (text_.capacity() - text_.size() < bytes) grow(bytes);
  }
  void grow(std::size_t bytes);

  Runtime& runtime_;
  Charge charge_;
  MarksBuilder marks_;
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
  Parameters(Runtime& runtime, std::string_view what, const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t required = 0);

  /// Null where the call does not give it.
  const Value* find(std::size_t index) const noexcept { return slots_[index]; }
  const Value& at(std::size_t index) const noexcept { return *slots_[index]; }
  bool truth(std::size_t index, bool otherwise) const;
  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;
  /// A str argument; anything else is a type error.
  const Text& text(std::size_t index) const;
  /// Its text alone.
  std::string_view string(std::size_t index, std::string_view otherwise = {}) const;

 private:
  Runtime& runtime_;
  std::string what_;
  std::vector<const Value*> slots_;
};

}  // namespace quern::jinja
