// Truth, equality, order, membership and iteration. Arithmetic is in arithmetic.cpp.
#include "operators.hpp"

#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>

namespace quern::jinja {

bool truth(const Value& value) noexcept {
  if (const auto* boolean = value.get_if<bool>()) return *boolean;
  if (const auto number = as_number(value)) return number->real ? number->value != 0 : number->integer != 0;
  if (const Text* text = value.text()) return !text->text.empty();
  if (const Sequence* sequence = value.sequence()) return !sequence->items.empty();
  if (const Mapping* mapping = value.mapping()) return !mapping->entries.empty();
  return !value.is_undefined() && !value.is_none();
}

std::optional<Number> as_number(const Value& value) noexcept {
  if (const auto* integer = value.integer()) return Number{false, *integer, static_cast<double>(*integer)};
  if (const auto* boolean = value.get_if<bool>()) return Number{false, *boolean ? 1 : 0, *boolean ? 1.0 : 0.0};
  if (const auto* real = value.get_if<double>()) return Number{true, 0, *real};
  return std::nullopt;
}

std::optional<std::int64_t> length_of(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Text* text = value.text()) {
    runtime.step_text(text->text.size());
    return static_cast<std::int64_t>(count_code_points(text->text));
  }
  if (const Sequence* sequence = value.sequence()) return static_cast<std::int64_t>(sequence->items.size());
  if (const Mapping* mapping = value.mapping()) return static_cast<std::int64_t>(mapping->entries.size());
  return std::nullopt;
}

namespace {

// Sign of left - right; 2 if one is not a number.
int order(const Number& left, const Number& right) noexcept {
  if (!left.real && !right.real) return (left.integer > right.integer) - (left.integer < right.integer);
  const auto wide = [](const Number& n) {  // holds every 64-bit integer exactly
    return n.real ? static_cast<long double>(n.value) : static_cast<long double>(n.integer);
  };
  const long double a = wide(left);
  const long double b = wide(right);
  if (std::isnan(a) || std::isnan(b)) return 2;
  return (a > b) - (a < b);
}

bool is_view(SequenceKind kind) noexcept { return kind == SequenceKind::keys || kind == SequenceKind::items; }

bool equal_items(Runtime& runtime, const Sequence& left, const Sequence& right) {
  require_stack(stack_for_a_level, "a nested value of the chat template");
  if (left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i) {
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  }
  return true;
}

// Views of keys and of items compare as sets.
bool equal_views(Runtime& runtime, const Sequence& left, const Sequence& right) {
  require_stack(stack_for_a_level, "a nested value of the chat template");
  if (left.items.size() != right.items.size()) return false;
  for (const Value& item : left.items) {
    const bool found = std::any_of(right.items.begin(), right.items.end(), [&](const Value& other) { return equal(runtime, item, other); });
    if (!found) return false;
  }
  return true;
}

bool equal_mappings(Runtime& runtime, const Mapping& left, const Mapping& right) {
  require_stack(stack_for_a_level, "a nested value of the chat template");
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    const Value* other = right.find(runtime, key);
    if (other == nullptr || !equal(runtime, value, *other)) return false;
  }
  return true;
}

}  // namespace

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (const auto a = as_number(left)) {
    const auto b = as_number(right);
    return b && order(*a, *b) == 0;
  }
  if (const Text* a = left.text()) {
    const Text* b = right.text();
    if (b == nullptr || a->text.size() != b->text.size()) return false;
    runtime.step_text(a->text.size());
    return a->text == b->text;
  }
  if (const Sequence* a = left.sequence()) {
    const Sequence* b = right.sequence();
    if (a == b) return true;
    if (b == nullptr || a->kind == SequenceKind::values) return false;
    if (is_view(a->kind) && is_view(b->kind)) return equal_views(runtime, *a, *b);
    return a->kind == b->kind && equal_items(runtime, *a, *b);
  }
  if (const Mapping* a = left.mapping()) {
    const Mapping* b = right.mapping();
    return a == b || (b != nullptr && equal_mappings(runtime, *a, *b));
  }
  if (left.is_undefined()) return right.is_undefined();
  if (left.is_none()) return right.is_none();
  return same(runtime, left, right);
}

bool same(Runtime& runtime, const Value& left, const Value& right) {
  if (left.storage().index() != right.storage().index()) return false;
  if (const auto* a = left.get_if<std::shared_ptr<const Sequence>>()) { return *a == *right.get_if<std::shared_ptr<const Sequence>>(); }
  if (const auto* a = left.get_if<std::shared_ptr<const Mapping>>()) { return *a == *right.get_if<std::shared_ptr<const Mapping>>(); }
  if (const auto* a = left.get_if<std::shared_ptr<Iterator>>()) return *a == *right.get_if<std::shared_ptr<Iterator>>();
  if (const auto* a = left.get_if<std::shared_ptr<LoopState>>()) return *a == *right.get_if<std::shared_ptr<LoopState>>();
  if (const auto* a = left.get_if<std::shared_ptr<const Callable>>()) { return *a == *right.get_if<std::shared_ptr<const Callable>>(); }
  if (const auto* a = left.get_if<Namespace*>()) return *a == *right.get_if<Namespace*>();
  return equal(runtime, left, right);
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_undefined()) runtime.fail_undefined(left);
  if (right.is_undefined()) runtime.fail_undefined(right);
  const auto a = as_number(left);
  const auto b = as_number(right);
  if (a && b) return order(*a, *b) == -1;
  if (left.text() != nullptr && right.text() != nullptr) {
    runtime.step_text(std::min(left.text()->text.size(), right.text()->text.size()));
    return left.text()->text < right.text()->text;  // byte order of UTF-8 is code point order
  }
  const Sequence* p = left.sequence();
  const Sequence* q = right.sequence();
  require_stack(stack_for_a_level, "a nested value of the chat template");
  const bool ordered = p != nullptr && q != nullptr && p->kind == q->kind && p->kind <= SequenceKind::tuple;
  if (!ordered) runtime.fail(concat("a ", type_name(left), " and a ", type_name(right), " have no order"));
  for (std::size_t i = 0; i < p->items.size() && i < q->items.size(); ++i) {
    if (!equal(runtime, p->items[i], q->items[i])) return less(runtime, p->items[i], q->items[i]);
  }
  return p->items.size() < q->items.size();
}

bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::eq: return equal(runtime, left, right);
    case CompareOp::ne: return !equal(runtime, left, right);
    case CompareOp::in: return contains(runtime, right, left);
    case CompareOp::not_in: return !contains(runtime, right, left);
    case CompareOp::lt: return less(runtime, left, right);
    case CompareOp::gt: return less(runtime, right, left);
    case CompareOp::le:
    case CompareOp::ge: break;
  }
  // Not the negation of the opposite: a NaN is neither below nor above.
  const bool below = op == CompareOp::le ? less(runtime, left, right) : less(runtime, right, left);
  return below || equal(runtime, left, right);
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  runtime.step();
  if (const Text* text = container.text()) {
    const Text* part = item.text();
    if (part == nullptr) runtime.fail(concat("'in' a str needs a str on its left and found a ", type_name(item)));
    return find_text(runtime, text->text, part->text) != std::string_view::npos;
  }
  if (const Mapping* mapping = container.mapping()) {
    check_key(runtime, item);
    return mapping->find(runtime, item) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (!is_iterable(container)) runtime.fail(concat("'in' cannot look into a ", type_name(container)));
  const std::shared_ptr<Iterator> pass = iterate(runtime, container);
  while (pass->next < pass->source->items.size()) {
    if (equal(runtime, pass->source->items[pass->next++], item)) return true;
  }
  return false;
}

bool is_iterable(const Value& value) noexcept {
  return value.is_undefined() || value.text() != nullptr || value.sequence() != nullptr || value.mapping() != nullptr ||
         value.iterator() != nullptr;
}

Counted<Value> characters_of(Runtime& runtime, const Text& source) {
  const std::string_view text = source.text;
  runtime.step_text(text.size());
  Counted<Value> items(runtime);
  items.reserve(count_code_points(text));
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    items.push_back(runtime.piece(source, character));
    at += character.size();
  }
  return items;
}

std::shared_ptr<Iterator> iterate(Runtime& runtime, const Value& value) {
  if (const auto* iterator = value.get_if<std::shared_ptr<Iterator>>()) return *iterator;
  auto pass = std::make_shared<Iterator>();
  const auto adopt = [&](Counted<Value> items) {
    pass->source = *runtime.list(std::move(items)).get_if<std::shared_ptr<const Sequence>>();
  };
  if (const auto* sequence = value.get_if<std::shared_ptr<const Sequence>>()) {
    pass->source = *sequence;
  } else if (const Text* text = value.text()) {
    adopt(characters_of(runtime, *text));
  } else if (const Mapping* mapping = value.mapping()) {
    Counted<Value> keys(runtime);
    keys.reserve(mapping->entries.size());
    for (const auto& entry : mapping->entries) keys.push_back(entry.first);
    adopt(std::move(keys));
  } else if (value.is_undefined()) {
    adopt(Counted<Value>(runtime));
  } else {
    runtime.fail(concat("a ", type_name(value), " cannot be iterated"));
  }
  return pass;
}

Counted<Value> items_of(Runtime& runtime, const Value& value) {
  const std::shared_ptr<Iterator> pass = iterate(runtime, value);
  const auto& items = pass->source->items;
  const auto first = items.begin() + static_cast<std::ptrdiff_t>(pass->next);
  runtime.step(items.size() - pass->next);
  pass->next = items.size();
  return {first, items.end(), runtime};
}

bool is_hashable(const Value& value) noexcept {
  const Sequence* sequence = value.sequence();
  return sequence != nullptr ? sequence->hashable : value.mapping() == nullptr;
}

void check_key(Runtime& runtime, const Value& key) {
  if (is_hashable(key)) return;
  const Value* culprit = &key;  // of a tuple the item that it fails for
  while (culprit->sequence() != nullptr && culprit->sequence()->kind == SequenceKind::tuple) {
    const auto& items = culprit->sequence()->items;
    runtime.step(items.size());
    culprit = &*std::find_if_not(items.begin(), items.end(), is_hashable);
  }
  runtime.fail(concat("a ", type_name(*culprit), " cannot be a key"));
}

void set_entry(Runtime& runtime, Entries& entries, Value key, Value value) {
  check_key(runtime, key);
  for (auto& entry : entries) {
    if (equal(runtime, entry.first, key)) {
      entry.second = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

void merge_sort(Runtime& runtime, Counted<std::size_t>& order, const std::function<bool(std::size_t, std::size_t)>& before) {
  Counted<std::size_t> merged(order.size(), runtime);
  for (std::size_t width = 1; width < order.size(); width *= 2) {
    for (std::size_t low = 0; low < order.size(); low += 2 * width) {
      const std::size_t middle = std::min(low + width, order.size());
      const std::size_t high = std::min(low + 2 * width, order.size());
      std::size_t a = low;
      std::size_t b = middle;
      runtime.step_text((high - low) * sizeof(std::size_t));
      for (std::size_t out = low; out < high; ++out) {
        const bool take_right = a == middle || (b < high && before(order[b], order[a]));
        merged[out] = take_right ? order[b++] : order[a++];
      }
    }
    order.swap(merged);
  }
}

}  // namespace quern::jinja
