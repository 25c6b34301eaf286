// A tree of JSON as the values that json.loads() would give.
#include "json_value.hpp"

#include "quern/graph/error.hpp"
#include "text.hpp"

#include <map>

namespace quern::jinja {

namespace {

Value text_value(Runtime& runtime, const std::string& text, std::string_view what) {
  const std::size_t bad = find_invalid_utf8(text);
  if (bad != std::string_view::npos)
    throw Error(QUERN_INVALID_ARGUMENT, concat(runtime.template_name(), ": ", what, " is not UTF-8 at byte ", bad));
  return runtime.text(text);
}

}  // namespace

Value mapping_value(Runtime& runtime, const Json::Members& members, const std::function<Value(const Json::Member&)>& value_of) {
  require_stack(stack_for_a_level, "a nested member of a message");
  constexpr std::uint64_t bytes_of_place = sizeof(std::string_view) + sizeof(std::size_t) + 4 * sizeof(void*) + block_overhead;
  const Charge places_held(runtime, members.size() * bytes_of_place);
  Entries entries(runtime);
  entries.reserve(members.size());
  std::map<std::string_view, std::size_t> places;  // no hash, which names could be made to collide in
  for (const Json::Member& member : members) {
    runtime.step_text(64 + member.name.size());
    Value value = value_of(member);
    const auto [place, added] = places.try_emplace(member.name, entries.size());
    if (added) {
      entries.emplace_back(text_value(runtime, member.name, "the name of a member of a message"), std::move(value));
    } else {
      entries[place->second].second = std::move(value);
    }
  }
  return runtime.mapping(std::move(entries));
}

Value json_value(Runtime& runtime, const Json& json, std::string_view what) {
  runtime.step();
  if (json.is_null()) return None{};
  if (const bool* boolean = json.boolean()) return *boolean;
  if (const std::string* text = json.text()) return text_value(runtime, *text, what);
  if (const Json::Members* members = json.members())
    return mapping_value(runtime, *members, [&](const Json::Member& member) { return json_value(runtime, member.value, what); });
  if (const Json::List* list = json.list()) {
    require_stack(stack_for_a_level, "a nested list of a message");
    Counted<Value> items(runtime);
    items.reserve(list->size());
    for (const Json& item : *list) items.push_back(json_value(runtime, item, what));
    return runtime.list(std::move(items));
  }
  if (const auto integer = json.integer()) return *integer;
  if (json.count() != nullptr)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(runtime.template_name(), ": ", what, " has the integer ", *json.count(), ", which is beyond 64 bits with sign"));
  return json.number().value_or(0.0);
}

}  // namespace quern::jinja
