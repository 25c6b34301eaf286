// Attribute, item and slice access.
#include "attributes.hpp"

#include "library.hpp"
#include "loop_state.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>

namespace quern::jinja {

namespace {

// What stands for an item that is not there. It names the key where that has a short text.
Value missing(Runtime& runtime, const Value& object, const Value& key) {
  const std::string owner = concat("'", type_name(object), " object' has no ");
  if (const Text* text = key.text()) { return runtime.undefined(owner + "attribute " + quote(text->text)); }
  if (const auto* integer = key.integer()) return runtime.undefined(owner + "element " + std::to_string(*integer));
  return runtime.undefined(owner + "such element");
}

// The index of an item of `size`, counted from the end if it is negative; nothing if there is none.
std::optional<std::size_t> resolve_index(std::int64_t index, std::size_t size) noexcept {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<Value> find_item(Runtime& runtime, const Value& object, const Value& key) {
  if (const Mapping* mapping = object.mapping()) {
    const Value* found = is_hashable(key) ? mapping->find(runtime, key) : nullptr;
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  const auto number = as_number(key);
  if (!number || number->real) return std::nullopt;
  if (const Sequence* sequence = object.sequence()) {
    if (sequence->kind > SequenceKind::range) return std::nullopt;  // a view has no order to index
    const auto index = resolve_index(number->integer, sequence->items.size());
    return index ? std::optional<Value>(sequence->items[*index]) : std::nullopt;
  }
  if (const Text* text = object.text()) {
    const auto index = resolve_index(number->integer, static_cast<std::size_t>(*length_of(runtime, object)));
    if (!index) return std::nullopt;
    return runtime.piece(*text, character_at(text->text, offset_of_code_point(text->text, *index)));
  }
  return std::nullopt;
}

struct SliceBounds {
  std::int64_t start, stop, step, count;
};

std::optional<std::int64_t> slice_index(Runtime& runtime, const Value& value) {
  if (value.is_none()) return std::nullopt;
  const auto number = as_number(value);
  if (!number || number->real) runtime.fail(concat("a slice needs ints and found a ", type_name(value)));
  return number->integer;
}

// Python's slice.indices().
SliceBounds resolve_slice(Runtime& runtime, const Value& start, const Value& stop, const Value& step, std::int64_t size) {
  SliceBounds bounds{};
  bounds.step = slice_index(runtime, step).value_or(1);
  if (bounds.step == 0) runtime.fail("the step of a slice is 0");
  const bool forward = bounds.step > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? size : size - 1;
  const auto clamp = [&](std::optional<std::int64_t> index, std::int64_t otherwise) {
    if (!index) return otherwise;
    const std::int64_t from_start = *index < 0 ? std::max(*index, -size - 1) + size : *index;
    return std::clamp(from_start, low, high);
  };
  bounds.start = clamp(slice_index(runtime, start), forward ? low : high);
  bounds.stop = clamp(slice_index(runtime, stop), forward ? high : low);
  const std::int64_t distance = forward ? bounds.stop - bounds.start : bounds.start - bounds.stop;
  const std::uint64_t stride = forward ? static_cast<std::uint64_t>(bounds.step)
                                       : std::uint64_t{0} - static_cast<std::uint64_t>(bounds.step);
  bounds.count = distance <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(distance) - 1) / stride + 1);
  return bounds;
}

// The position of the i-th item; only called with i below the count, so that nothing overflows.
std::int64_t position(const SliceBounds& bounds, std::int64_t i) noexcept { return bounds.start + i * bounds.step; }

Value slice_text(Runtime& runtime, const Text& source, const SliceBounds& bounds) {
  const std::string_view text = source.text;
  runtime.step_text(text.size());
  if (bounds.count == 0) return runtime.piece(source, text.substr(0, 0));
  if (bounds.step == 1) {
    const std::size_t first = offset_of_code_point(text, static_cast<std::size_t>(bounds.start));
    const std::string_view rest = text.substr(first);
    return runtime.piece(source, rest.substr(0, offset_of_code_point(rest, static_cast<std::size_t>(bounds.count))));
  }
  TextBuilder out(runtime);
  std::size_t at = offset_of_code_point(text, static_cast<std::size_t>(bounds.start));
  for (std::int64_t i = 0;;) {
    const std::string_view character = character_at(text, at);
    runtime.step_characters(character.size());
    out.append(source, character);
    if (++i == bounds.count) return out.finish();
    for (std::int64_t move = bounds.step; move != 0; move -= move > 0 ? 1 : -1) {
      at = move > 0 ? at + character_at(text, at).size() : previous_offset(text, at);
      if (move % 64 == 0) runtime.step();
    }
  }
}

Value slice_sequence(Runtime& runtime, const Sequence& sequence, const SliceBounds& bounds) {
  if (sequence.kind == SequenceKind::range) {
    // The end of a range lies up to one step behind its last item, which may be beyond 64 bits.
    const auto at = [&](std::int64_t index) {
      std::int64_t distance = 0, value = 0;
      if (__builtin_mul_overflow(index, sequence.step, &distance) || __builtin_add_overflow(sequence.start, distance, &value)) {
        runtime.unsupported("a slice of this range begins or ends beyond 64 bits");
      }
      return value;
    };
    std::int64_t step = 0;
    if (__builtin_mul_overflow(sequence.step, bounds.step, &step)) runtime.unsupported("the step of a range is too large");
    return runtime.range(at(bounds.start), at(bounds.stop), step);
  }
  Counted<Value> items(runtime);
  items.reserve(static_cast<std::size_t>(bounds.count));
  for (std::int64_t i = 0; i < bounds.count; ++i) {
    runtime.step();
    items.push_back(sequence.items[static_cast<std::size_t>(position(bounds, i))]);
  }
  return runtime.sequence(sequence.kind, std::move(items));
}

}  // namespace

std::optional<Value> get_own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  runtime.step();
  if (object.is_undefined()) runtime.fail_undefined(object);
  if (const Namespace* names = object.names()) {
    const Value* found = names->find(runtime, name);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (LoopState* loop = object.loop()) {
    if (std::optional<Value> found = loop->attribute(runtime, name)) return found;
  }
  if (would_change(object, name)) {
    return runtime.undefined(concat("'", type_name(object), ".", shown(name), "' would change the ", type_name(object),
                                    ", which templates may not do"));
  }
  if (const Method* method = find_method(runtime, object, name)) {
    const Value bound = runtime.callable(BoundMethod{object, method});
    runtime.check_depth(bound.depth());
    return bound;
  }
  return std::nullopt;
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (std::optional<Value> found = get_own_attribute(runtime, object, name)) return *found;
  const Value key = runtime.text(name);
  if (object.mapping() != nullptr) {
    if (const Value* found = object.mapping()->find(runtime, key)) return *found;
  }
  return missing(runtime, object, key);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  runtime.step();
  if (object.is_undefined()) runtime.fail_undefined(object);
  if (std::optional<Value> found = find_item(runtime, object, key)) return *found;
  if (const Text* name = key.text()) {
    if (name->text.starts_with("__")) {
      runtime.unsupported("attribute " + quote(name->text) + " is not data, and nothing else can be reached");
    }
    if (std::optional<Value> found = get_own_attribute(runtime, object, name->text)) return *found;
  }
  return missing(runtime, object, key);
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) runtime.fail_undefined(object);
  const Text* text = object.text();
  const Sequence* sequence = object.sequence();
  if (text == nullptr && (sequence == nullptr || sequence->kind > SequenceKind::range)) {
    runtime.fail(concat("a ", type_name(object), " has no slices"));
  }
  const SliceBounds bounds = resolve_slice(runtime, start, stop, step, *length_of(runtime, object));
  return text != nullptr ? slice_text(runtime, *text, bounds) : slice_sequence(runtime, *sequence, bounds);
}

}  // namespace quern::jinja
