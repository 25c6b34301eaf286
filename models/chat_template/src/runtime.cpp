// Limits and the makers of values.
#include "runtime.hpp"

#include "lexer.hpp"
#include "loop_state.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::jinja {

Runtime::~Runtime() = default;

void Runtime::fail_undefined(const Value& value) const {
  const auto* undefined = value.get_if<Undefined>();
  fail(undefined != nullptr && undefined->reason ? undefined->reason->text : "an undefined value is used");
}

void Runtime::check_depth(int depth) const {
  if (depth > max_value_depth) fail(concat("a value nests deeper than ", max_value_depth, " levels"));
}

Value Runtime::marked_text(std::string_view text, Marks marks, bool markup) {
  step_text(text.size());
  Charge charge(*this, text.size() + block_overhead + marks.bytes());
  return charged_text(std::string(text), std::move(marks), std::move(charge), markup);
}

Value Runtime::piece(const Text& text, std::string_view part) {
  if (text.marks.none() || text.marks.all()) return marked_text(part, text.marks, false);
  TextBuilder out(*this);
  out.reserve(part.size());
  out.append(text, part);
  return out.finish();
}

void MarksBuilder::add_range(ForeignRange range) {
  runtime_.step();
  if (ranges_.size() == ranges_.capacity()) {
    // Old and new memory exist together while the ranges move.
    const std::size_t wanted = std::max<std::size_t>(2 * ranges_.size(), 1);
    Charge larger(runtime_, wanted * sizeof(ForeignRange) + block_overhead);
    ranges_.reserve(wanted);
    charge_ = std::move(larger);
  }
  ranges_.push_back(range);
}

void MarksBuilder::add_part(std::size_t size, const Text& source, std::string_view part) {
  if (source.marks.none()) return;
  if (source.marks.all()) return add(size, size + part.size());
  const auto first = static_cast<std::size_t>(part.data() - source.text.data());
  const std::size_t last = first + part.size();
  for (const ForeignRange& range : source.marks.ranges_from(first)) {
    if (range.begin > last) break;
    runtime_.step();
    add(size + std::max(range.begin, first) - first, size + std::min(range.end, last) - first);
  }
}

void MarksBuilder::leave_out(std::size_t size, const Text& source, std::string_view part) {
  const auto first = static_cast<std::size_t>(part.data() - source.text.data());
  const auto ranges = source.marks.ranges_from(first);
  if (source.marks.all() || (!ranges.empty() && ranges.front().begin <= first + part.size())) add(size, size);
}

Value Runtime::charged_text(std::string text, Marks marks, Charge charge, bool markup) {
  step();
  charge.grow(shared_size<Text>);
  auto held = std::make_shared<Text>();
  held->charge = std::move(charge);
  held->text = std::move(text);
  held->markup = markup;
  held->marks = std::move(marks);
  return std::shared_ptr<const Text>(std::move(held));
}

void TextBuilder::repeat(std::uint64_t times, std::string_view text) {
  if (text.empty()) return;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(times, text.size(), &bytes)) bytes = UINT64_MAX;
  reserve(bytes);
  for (std::uint64_t i = 0; i < times; ++i) {
    if (i % 64 == 0) runtime_.step_text(std::min<std::uint64_t>(times - i, 64) * text.size());
    text_ += text;
  }
}

void TextBuilder::reserve(std::uint64_t bytes) {
  if (bytes <= text_.capacity() - text_.size()) return;
  // Old and new memory exist together while the text moves.
  std::uint64_t wanted = 0;
  if (__builtin_add_overflow(bytes, text_.size() + block_overhead, &wanted)) wanted = UINT64_MAX;
  Charge larger(runtime_, wanted);
  std::string moved;
  moved.reserve(text_.size() + bytes);  // of an empty string: this size and no other
  moved = text_;
  text_ = std::move(moved);
  charge_ = std::move(larger);
}

void TextBuilder::grow(std::size_t bytes) {
  runtime_.step_text(text_.size());  // it is copied
  reserve(std::max(bytes, text_.size() / 2 + 32));
}

Value TextBuilder::finish(bool markup) {
  if (text_.capacity() - text_.size() > text_.size() / 8 + 64) {  // what is kept has little spare room
    return runtime_.marked_text(text_, Marks::of(marks_.take(), text_.size()), markup);
  }
  charge_.join(marks_.take_charge());
  Marks marks = Marks::of(marks_.take(), text_.size());
  return runtime_.charged_text(std::move(text_), std::move(marks), std::move(charge_), markup);
}

Value Runtime::sequence(SequenceKind kind, Counted<Value> items) {
  Charge charge(*this, shared_size<Sequence>);
  auto held = std::make_shared<Sequence>(std::move(items));
  held->kind = kind;
  held->charge = std::move(charge);
  held->hashable = kind == SequenceKind::tuple || kind == SequenceKind::range;
  step();
  for (const Value& item : held->items) {
    step();
    held->depth = std::max(held->depth, item.depth() + 1);
    held->hashable = held->hashable && is_hashable(item);
  }
  check_depth(held->depth);
  return std::shared_ptr<const Sequence>(std::move(held));
}

Value Runtime::range(std::int64_t start, std::int64_t stop, std::int64_t step_size) {
  const bool empty = step_size > 0 ? start >= stop : start <= stop;
  const std::uint64_t distance = empty           ? 0
                                 : step_size > 0 ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                                 : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t stride = step_size > 0 ? static_cast<std::uint64_t>(step_size)
                                             : std::uint64_t{0} - static_cast<std::uint64_t>(step_size);
  const std::uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
  if (count > static_cast<std::uint64_t>(max_range_items)) {
    fail(concat("range has ", count, " items; the largest that is allowed has ", max_range_items));
  }
  Charge charge(*this, shared_size<Sequence>);
  Counted<Value> items(*this);
  items.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    step();
    items.emplace_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step_size)));
  }
  auto held = std::make_shared<Sequence>(std::move(items));
  held->kind = SequenceKind::range;
  held->hashable = true;
  held->charge = std::move(charge);
  held->start = start;
  held->stop = stop;
  held->step = step_size;
  return std::shared_ptr<const Sequence>(std::move(held));
}

Value Runtime::generator(Counted<Value> items) {
  const Value source = list(std::move(items));
  Charge charge(*this, shared_size<Iterator>);
  auto held = std::make_shared<Iterator>();
  held->source = *source.get_if<std::shared_ptr<const Sequence>>();
  held->charge = std::move(charge);
  return held;
}

Value Runtime::mapping(Entries entries) {
  Charge charge(*this, shared_size<Mapping>);
  auto held = std::make_shared<Mapping>(std::move(entries));
  held->charge = std::move(charge);
  step();
  for (const auto& [key, value] : held->entries) {
    step();
    held->depth = std::max({held->depth, key.depth() + 1, value.depth() + 1});
  }
  check_depth(held->depth);
  return std::shared_ptr<const Mapping>(std::move(held));
}

Value Runtime::new_namespace() {
  namespaces_.emplace_back(*this);
  return &namespaces_.back();
}

Value Runtime::undefined(std::string reason) {
  step();
  Charge charge(*this, shared_size<Reason> + reason.capacity() + block_overhead);
  auto held = std::make_shared<Reason>();
  held->charge = std::move(charge);
  held->text = std::move(reason);
  return Undefined{std::move(held)};
}

Value Runtime::callable(std::variant<MacroClosure, const GlobalFunction*, BoundMethod> target) {
  step();
  Charge charge(*this, shared_size<Callable>);
  auto held = std::make_shared<Callable>();
  held->charge = std::move(charge);
  held->target = std::move(target);
  return std::shared_ptr<const Callable>(std::move(held));
}

Parameters::Parameters(Runtime& runtime, std::string_view what, const Arguments& arguments, std::initializer_list<std::string_view> names,
                       std::size_t required)
    : runtime_(runtime), what_(what), slots_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    runtime.fail(concat(what, " takes at most ", names.size(), " arguments and got ", arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) slots_[i] = &arguments.positional[i];
  for (const Arguments::Keyword& keyword : arguments.keyword) {
    runtime.step();
    const std::string_view name = keyword.text();
    const auto* place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) runtime.fail(concat(what, " has no argument '", shown(name), "'"));
    const auto index = static_cast<std::size_t>(place - names.begin());
    if (slots_[index] != nullptr) runtime.fail(concat(what, " gets argument '", name, "' twice"));
    slots_[index] = &keyword.value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (slots_[i] == nullptr) runtime.fail(concat(what, " needs the argument '", *(names.begin() + i), "'"));
  }
}

bool Parameters::truth(std::size_t index, bool otherwise) const {
  return slots_[index] == nullptr ? otherwise : jinja::truth(*slots_[index]);
}

std::int64_t Parameters::integer(std::size_t index, std::int64_t otherwise) const {
  const Value* value = slots_[index];
  if (value == nullptr) return otherwise;
  if (const auto* integer = value->integer()) return *integer;
  if (const auto* boolean = value->get_if<bool>()) return *boolean ? 1 : 0;
  if (value->is_undefined()) runtime_.fail_undefined(*value);
  runtime_.fail(concat(what_, " needs an int and got a ", type_name(*value)));
}

const Text& Parameters::text(std::size_t index) const {
  if (const Text* text = slots_[index]->text()) return *text;
  runtime_.fail(concat(what_, " needs a str and got a ", type_name(*slots_[index])));
}

std::string_view Parameters::string(std::size_t index, std::string_view otherwise) const {
  return slots_[index] == nullptr ? otherwise : std::string_view(text(index).text);
}

}  // namespace quern::jinja
