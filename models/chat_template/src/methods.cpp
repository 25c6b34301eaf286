// Which methods there are, and those of mappings, sequences and loops. The methods of str are in
// text_methods.cpp.
#include "library.hpp"

#include "loop_state.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <array>

namespace quern::jinja {

namespace {

Value view(Runtime& runtime, const Mapping& mapping, SequenceKind kind) {
  Counted<Value> items(runtime);
  items.reserve(mapping.entries.size());
  for (const auto& [key, value] : mapping.entries) {
    runtime.step();
    items.push_back(kind == SequenceKind::keys ? key : kind == SequenceKind::values ? value : runtime.tuple({key, value}));
  }
  return runtime.sequence(kind, std::move(items));
}

Value mapping_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "dict.items", arguments, {});
  return view(runtime, *self.mapping(), SequenceKind::items);
}
Value mapping_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "dict.keys", arguments, {});
  return view(runtime, *self.mapping(), SequenceKind::keys);
}
Value mapping_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "dict.values", arguments, {});
  return view(runtime, *self.mapping(), SequenceKind::values);
}
Value mapping_copy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters(runtime, "dict.copy", arguments, {});
  return self;  // it cannot change, so a copy cannot be told from it
}
Value mapping_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "dict.get", arguments, {"key", "default"}, 1);
  check_key(runtime, parameters.at(0));
  if (const Value* found = self.mapping()->find(runtime, parameters.at(0))) return *found;
  return parameters.find(1) == nullptr ? Value(None{}) : *parameters.find(1);
}

Value sequence_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "index", arguments, {"value"}, 1);
  const auto& items = self.sequence()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(runtime, items[i], parameters.at(0))) return static_cast<std::int64_t>(i);
  }
  runtime.fail("index: the value is not in the list");
}
Value sequence_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters parameters(runtime, "count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (const Value& item : self.sequence()->items) count += equal(runtime, item, parameters.at(0));
  return count;
}

Value loop_cycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.keyword.empty()) runtime.fail("loop.cycle takes no named arguments");
  if (arguments.positional.empty()) runtime.fail("loop.cycle has nothing to cycle through");
  return arguments.positional[static_cast<std::size_t>(self.loop()->index0()) % arguments.positional.size()];
}

constexpr std::array mapping_table = {Method{"copy", mapping_copy}, Method{"get", mapping_get}, Method{"items", mapping_items},
                                      Method{"keys", mapping_keys}, Method{"values", mapping_values}};
constexpr std::array sequence_table = {Method{"count", sequence_count}, Method{"index", sequence_index}};
constexpr std::array loop_table = {Method{"cycle", loop_cycle}};

// Python has these, the sandbox of transformers allows them, and they are not offered here.
constexpr std::array<std::string_view, 11> other_text_methods = {"casefold",  "encode",       "expandtabs",  "isascii",
                                                                 "isdecimal", "isidentifier", "isprintable", "istitle",
                                                                 "maketrans", "rindex",       "translate"};
constexpr std::array<std::string_view, 1> other_mapping_methods = {"fromkeys"};
constexpr std::array<std::string_view, 1> other_list_methods = {"copy"};
constexpr std::array<std::string_view, 1> other_loop_methods = {"changed"};
// Python has these, and the sandbox of transformers forbids them: nothing may be changed.
constexpr std::array<std::string_view, 8> changing_list_methods = {"append", "clear",   "extend", "insert",
                                                                   "pop",    "reverse", "remove", "sort"};
constexpr std::array<std::string_view, 5> changing_mapping_methods = {"clear", "pop", "popitem", "setdefault", "update"};

template <typename Table>
const Method* find_in(const Table& table, std::string_view name) noexcept {
  const auto row = std::find_if(std::begin(table), std::end(table), [&](const Method& m) { return m.name == name; });
  return row == std::end(table) ? nullptr : &*row;
}

template <typename Names>
bool lists(const Names& names, std::string_view name) noexcept {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool would_change(const Value& self, std::string_view name) noexcept {
  if (self.mapping() != nullptr) return lists(changing_mapping_methods, name);
  return self.sequence() != nullptr && self.sequence()->kind == SequenceKind::list && lists(changing_list_methods, name);
}

const Method* find_method(Runtime& runtime, const Value& self, std::string_view name) {
  const auto refuse_if = [&](bool known) {
    if (known) runtime.unsupported(concat("method '", name, "' of a ", type_name(self), " is not offered"));
  };
  if (self.text() != nullptr) {
    refuse_if(lists(other_text_methods, name));
    const Method* method = find_in(text_methods(), name);
    return method != nullptr ? method : find_in(text_search_methods(), name);
  }
  if (self.mapping() != nullptr) {
    refuse_if(lists(other_mapping_methods, name));
    return find_in(mapping_table, name);
  }
  if (const Sequence* sequence = self.sequence()) {
    if (sequence->kind > SequenceKind::range) return nullptr;
    refuse_if(sequence->kind == SequenceKind::list && lists(other_list_methods, name));
    return find_in(sequence_table, name);
  }
  if (self.loop() != nullptr) {
    refuse_if(lists(other_loop_methods, name));
    return find_in(loop_table, name);
  }
  return nullptr;
}

}  // namespace quern::jinja
