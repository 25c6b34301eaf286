// Limits and the makers of values.
#include "runtime.hpp"

#include "lexer.hpp"
#include "loop_state.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::jinja {

namespace {

// What the allocator and the control blocks add to a small value; an estimate that the limit need not be
// exact about.
constexpr std::uint64_t object_overhead = 96;

}  // namespace

Charge::Charge(Runtime& runtime, std::uint64_t bytes) : runtime_(&runtime) { grow(bytes); }

Charge::~Charge() {
  if (runtime_ != nullptr) runtime_->give(bytes_);
}

void Charge::grow(std::uint64_t bytes) {
  runtime_->take(bytes);
  bytes_ += bytes;
}

Runtime::~Runtime() = default;

void Runtime::fail(const std::string& text) const { fail_at(QUERN_BAD_MODEL, template_name_, line_, text); }

void Runtime::unsupported(const std::string& text) const {
  fail_at(QUERN_UNSUPPORTED, template_name_, line_, text);
}

void Runtime::refuse(const std::string& text) const {
  fail_at(QUERN_INVALID_ARGUMENT, template_name_, line_, text);
}

void Runtime::fail_undefined(const Value& value) const {
  const auto* undefined = value.get_if<Undefined>();
  fail(undefined != nullptr && undefined->reason ? undefined->reason->text : "an undefined value is used");
}

void Runtime::fail_steps() const {
  fail(concat("the template takes more than ", limits_.steps, " steps for these messages"));
}

void Runtime::take(std::uint64_t bytes) {
  if (bytes > limits_.memory_bytes || held_ > limits_.memory_bytes - bytes) {
    fail(concat("the template's values need ", bytes, " bytes more than the ", held_,
                " they have, beyond the limit of ", limits_.memory_bytes));
  }
  held_ += bytes;
}

void Runtime::check_depth(int depth) const {
  if (depth > max_value_depth) fail(concat("a value nests deeper than ", max_value_depth, " levels"));
}

Value Runtime::text(std::string text, bool markup) {
  step_text(text.size());
  auto held = std::make_shared<Text>();
  held->charge = Charge(*this, text.size() + object_overhead);
  held->text = std::move(text);
  held->markup = markup;
  return std::shared_ptr<const Text>(std::move(held));
}

Value Runtime::charged_text(std::string text, Charge charge) {
  auto held = std::make_shared<Text>();
  charge.grow(object_overhead);
  held->charge = std::move(charge);
  held->text = std::move(text);
  return std::shared_ptr<const Text>(std::move(held));
}

Value Runtime::sequence(SequenceKind kind, std::vector<Value> items) {
  step(1 + items.size());
  auto held = std::make_shared<Sequence>();
  held->kind = kind;
  held->charge = Charge(*this, items.size() * sizeof(Value) + object_overhead);
  for (const Value& item : items) held->depth = std::max(held->depth, item.depth() + 1);
  check_depth(held->depth);
  held->items = std::move(items);
  return std::shared_ptr<const Sequence>(std::move(held));
}

Value Runtime::range(std::int64_t start, std::int64_t stop, std::int64_t step_size) {
  const bool empty = step_size > 0 ? start >= stop : start <= stop;
  const std::uint64_t distance = empty ? 0
                                 : step_size > 0
                                     ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                                     : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
  const std::uint64_t stride = step_size > 0 ? static_cast<std::uint64_t>(step_size)
                                             : std::uint64_t{0} - static_cast<std::uint64_t>(step_size);
  const std::uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
  if (count > static_cast<std::uint64_t>(max_range_items)) {
    fail(concat("range has ", count, " items; the largest that is allowed has ", max_range_items));
  }
  step(count);
  auto held = std::make_shared<Sequence>();
  held->kind = SequenceKind::range;
  held->charge = Charge(*this, count * sizeof(Value) + object_overhead);
  held->start = start;
  held->stop = stop;
  held->step = step_size;
  held->items.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    held->items.emplace_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                                       i * static_cast<std::uint64_t>(step_size)));
  }
  return std::shared_ptr<const Sequence>(std::move(held));
}

Value Runtime::generator(std::vector<Value> items) {
  const Value source = list(std::move(items));
  auto held = std::make_shared<Iterator>();
  held->source = *source.get_if<std::shared_ptr<const Sequence>>();
  return held;
}

Value Runtime::mapping(std::vector<std::pair<Value, Value>> entries) {
  step(1 + entries.size());
  auto held = std::make_shared<Mapping>();
  held->charge = Charge(*this, entries.size() * 2 * sizeof(Value) + object_overhead);
  for (const auto& [key, value] : entries)
    held->depth = std::max({held->depth, key.depth() + 1, value.depth() + 1});
  check_depth(held->depth);
  held->entries = std::move(entries);
  return std::shared_ptr<const Mapping>(std::move(held));
}

Value Runtime::new_namespace() {
  namespaces_.emplace_back();
  namespaces_.back().charge = Charge(*this, sizeof(Namespace) + object_overhead);
  return &namespaces_.back();
}

Value Runtime::undefined(std::string reason) {
  auto held = std::make_shared<Reason>();
  held->charge = Charge(*this, reason.size() + object_overhead);
  held->text = std::move(reason);
  return Undefined{std::move(held)};
}

Value Runtime::callable(std::variant<MacroClosure, const GlobalFunction*, BoundMethod> target) {
  auto held = std::make_shared<Callable>();
  held->charge = Charge(*this, object_overhead);
  held->target = std::move(target);
  return std::shared_ptr<const Callable>(std::move(held));
}

Parameters::Parameters(Runtime& runtime, std::string_view what, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, std::size_t required)
    : runtime_(runtime), what_(what), slots_(names.size(), nullptr) {
  if (arguments.positional.size() > names.size()) {
    runtime.fail(
        concat(what, " takes at most ", names.size(), " arguments and got ", arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) slots_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.keyword) {
    const auto* place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) runtime.fail(concat(what, " has no argument '", name, "'"));
    const auto index = static_cast<std::size_t>(place - names.begin());
    if (slots_[index] != nullptr) runtime.fail(concat(what, " gets argument '", name, "' twice"));
    slots_[index] = &value;
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

std::string_view Parameters::string(std::size_t index, std::string_view otherwise) const {
  const Value* value = slots_[index];
  if (value == nullptr) return otherwise;
  if (const Text* text = value->text()) return text->text;
  runtime_.fail(concat(what_, " needs a str and got a ", type_name(*value)));
}

}  // namespace quern::jinja
