// Filters over things that can be iterated: their ends, order, sum and text.
#include "library.hpp"

#include "attributes.hpp"
#include "attribute_path.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"
#include "text_operations.hpp"

#include <algorithm>
#include <numeric>

namespace quern::jinja {

namespace {

Value length(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'length'", arguments, {});
  const auto size = length_of(runtime, input);
  if (!size) runtime.fail(concat("a ", type_name(input), " has no length"));
  return *size;
}

Value first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'first'", arguments, {});
  if (input.text() != nullptr && !input.text()->text.empty()) return get_item(runtime, input, std::int64_t{0});
  const std::shared_ptr<Iterator> pass = iterate(runtime, input);
  if (pass->next >= pass->source->items.size()) return runtime.undefined("no first item, sequence was empty");
  return pass->source->items[pass->next++];
}

Value last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'last'", arguments, {});
  if (input.text() != nullptr && !input.text()->text.empty()) return get_item(runtime, input, std::int64_t{-1});
  if (input.iterator() != nullptr) runtime.fail("filter 'last': a generator cannot be read from its end");
  const std::shared_ptr<Iterator> pass = iterate(runtime, input);
  if (pass->source->items.empty()) return runtime.undefined("no last item, sequence was empty");
  return pass->source->items.back();
}

Value list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'list'", arguments, {});
  return runtime.list(items_of(runtime, input));
}

Value reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'reverse'", arguments, {});
  if (input.text() != nullptr) return get_slice(runtime, input, None{}, None{}, std::int64_t{-1});
  Counted<Value> items = items_of(runtime, input);
  std::reverse(items.begin(), items.end());
  return input.iterator() != nullptr ? runtime.list(std::move(items)) : runtime.generator(std::move(items));
}

Value join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'join'", arguments, {"d", "attribute"});
  const Value separator = parameters.find(0) == nullptr ? runtime.own_text("") : to_text(runtime, parameters.at(0));
  Counted<Value> items = items_of(runtime, input);
  if (parameters.find(1) != nullptr && !parameters.at(1).is_none()) {
    const AttributePath path(runtime, parameters.at(1));
    for (Value& item : items) item = path.follow(item);
  }
  return join_values(runtime, *separator.text(), items);
}

// What sort, min, max and unique compare: the item or an attribute of it, strings in lower case unless told
// otherwise.
Counted<Value> sort_keys(Runtime& runtime, const Counted<Value>& items, const AttributePath* path, bool case_sensitive) {
  Counted<Value> keys(runtime);
  keys.reserve(items.size());
  for (const Value& item : items) {
    runtime.step();
    Value key = path == nullptr ? item : path->follow(item);
    keys.push_back(case_sensitive || key.text() == nullptr ? key : recase(runtime, *key.text(), to_lower));
  }
  return keys;
}

std::optional<AttributePath> path_of(Runtime& runtime, const Parameters& parameters, std::size_t index) {
  if (parameters.find(index) == nullptr || parameters.at(index).is_none()) return std::nullopt;
  return AttributePath(runtime, parameters.at(index));
}

// Jinja's sort wraps its keys in lists, which look for a difference before they ask for the order.
bool less_if_different(Runtime& runtime, const Value& left, const Value& right) {
  return !equal(runtime, left, right) && less(runtime, left, right);
}

Counted<Value> sorted(Runtime& runtime, Counted<Value> items, const Counted<Value>& keys, bool reversed,
                      bool (*before)(Runtime&, const Value&, const Value&)) {
  runtime.step(items.size());
  Counted<std::size_t> order(items.size(), runtime);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Reversed as Python reverses: the largest first, equal items in their old order.
  merge_sort(runtime, order, [&](std::size_t a, std::size_t b) {
    return reversed ? before(runtime, keys[b], keys[a]) : before(runtime, keys[a], keys[b]);
  });
  Counted<Value> out(runtime);
  out.reserve(items.size());
  for (const std::size_t index : order) out.push_back(std::move(items[index]));
  return out;
}

Value sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'sort'", arguments, {"reverse", "case_sensitive", "attribute"});
  Counted<Value> items = items_of(runtime, input);
  const bool case_sensitive = parameters.truth(1, false);
  Counted<Value> keys(runtime);
  const Value* attribute = parameters.find(2);
  if (attribute != nullptr && attribute->text() != nullptr && find_text(runtime, attribute->text()->text, ",") != std::string::npos) {
    const Counted<AttributePath> paths = attribute_paths(runtime, attribute->text()->text);
    for (const Value& item : items) {
      Counted<Value> parts(runtime);
      for (const AttributePath& path : paths) parts.push_back(path.follow(item));
      keys.push_back(runtime.list(sort_keys(runtime, parts, nullptr, case_sensitive)));
    }
  } else {
    const auto path = path_of(runtime, parameters, 2);
    keys = sort_keys(runtime, items, path ? &*path : nullptr, case_sensitive);
  }
  return runtime.list(sorted(runtime, std::move(items), keys, parameters.truth(0, false), less_if_different));
}

Value dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'dictsort'", arguments, {"case_sensitive", "by", "reverse"});
  const Mapping* mapping = input.mapping();
  if (mapping == nullptr) runtime.fail(concat("filter 'dictsort' needs a dict and got a ", type_name(input)));
  const std::string_view by = parameters.string(1, "key");
  if (by != "key" && by != "value") runtime.fail("filter 'dictsort': by is 'key' or 'value'");
  Counted<Value> compared(runtime);
  Counted<Value> pairs(runtime);
  for (const auto& [key, value] : mapping->entries) {
    compared.push_back(by == "key" ? key : value);
    pairs.push_back(runtime.tuple({key, value}));
  }
  const Counted<Value> keys = sort_keys(runtime, compared, nullptr, parameters.truth(0, false));
  return runtime.list(sorted(runtime, std::move(pairs), keys, parameters.truth(2, false), less));
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, largest ? "filter 'max'" : "filter 'min'", arguments, {"case_sensitive", "attribute"});
  const Counted<Value> items = items_of(runtime, input);
  if (items.empty()) return runtime.undefined("no aggregated item, sequence was empty");
  const auto path = path_of(runtime, parameters, 1);
  const Counted<Value> keys = sort_keys(runtime, items, path ? &*path : nullptr, parameters.truth(0, false));
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    if (largest ? less(runtime, keys[best], keys[i]) : less(runtime, keys[i], keys[best])) best = i;
  }
  return items[best];
}

Value unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'unique'", arguments, {"case_sensitive", "attribute"});
  const Counted<Value> items = items_of(runtime, input);
  const auto path = path_of(runtime, parameters, 1);
  const Counted<Value> keys = sort_keys(runtime, items, path ? &*path : nullptr, parameters.truth(0, false));
  Counted<Value> seen(runtime);
  Counted<Value> kept(runtime);
  for (std::size_t i = 0; i < items.size(); ++i) {
    check_key(runtime, keys[i]);
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& key) { return equal(runtime, key, keys[i]); });
    if (known) continue;
    seen.push_back(keys[i]);
    kept.push_back(items[i]);
  }
  return runtime.generator(std::move(kept));
}

Value sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'sum'", arguments, {"attribute", "start"});
  const auto path = path_of(runtime, parameters, 0);
  Value total = parameters.find(1) == nullptr ? Value(std::int64_t{0}) : *parameters.find(1);
  if (total.text() != nullptr) runtime.fail("filter 'sum' cannot sum str; 'join' joins them");
  for (const Value& item : items_of(runtime, input)) {
    total = arithmetic(runtime, ArithmeticOp::add, total, path ? path->follow(item) : item);
  }
  return total;
}

Value items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Parameters(runtime, "filter 'items'", arguments, {});
  Counted<Value> pairs(runtime);
  if (const Mapping* mapping = input.mapping()) {
    for (const auto& [key, value] : mapping->entries) pairs.push_back(runtime.tuple({key, value}));
  } else if (!input.is_undefined()) {
    runtime.fail(concat("filter 'items' needs a dict and got a ", type_name(input)));
  }
  return runtime.generator(std::move(pairs));
}

Value attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Parameters parameters(runtime, "filter 'attr'", arguments, {"name"}, 1);
  const std::string_view name = parameters.string(0);
  if (name.starts_with("__")) runtime.unsupported("filter 'attr': names that begin with '__' are not data");
  if (std::optional<Value> found = get_own_attribute(runtime, input, name)) return *found;
  return runtime.undefined(concat("'", type_name(input), " object' has no such attribute"));
}

constexpr Filter sequence_filter_table[] = {{"attr", attribute}, {"count", length},      {"dictsort", dictsort},  {"first", first},
                                            {"items", items},    {"join", join},         {"last", last},          {"length", length},
                                            {"list", list},      {"max", extreme<true>}, {"min", extreme<false>}, {"reverse", reverse},
                                            {"sort", sort},      {"sum", sum},           {"unique", unique}};

}  // namespace

std::span<const Filter> sequence_filters() noexcept { return sequence_filter_table; }

}  // namespace quern::jinja
