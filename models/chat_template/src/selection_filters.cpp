// map, select, reject, selectattr, rejectattr: filters that apply a filter or a test to each item.
#include "library.hpp"

#include "attribute_path.hpp"
#include "attributes.hpp"
#include "numbers.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>

namespace quern::jinja {

AttributePath::AttributePath(Runtime& runtime, const Value& attribute) : runtime_(&runtime), parts_(runtime) {
  const Text* text = attribute.text();
  if (text == nullptr) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = text->text;
  while (true) {
    const std::size_t dot = find_text(runtime, rest, ".");
    const std::string_view part = rest.substr(0, dot);
    runtime.step_characters(part.size());
    const bool is_index = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto index = is_index ? parse_integer(runtime, part, 10) : std::nullopt;
    if (index && index->beyond_64_bits) runtime.unsupported("an index in an attribute is beyond 64 bits");
    parts_.push_back(index ? Value(index->value) : runtime.text(part));
    if (dot == std::string_view::npos) return;
    rest = rest.substr(dot + 1);
  }
}

Value AttributePath::follow(const Value& item, const Value* otherwise) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(*runtime_, value, part);
    if (otherwise != nullptr && !otherwise->is_none() && value.is_undefined()) value = *otherwise;
  }
  return value;
}

Counted<AttributePath> attribute_paths(Runtime& runtime, std::string_view text) {
  Counted<AttributePath> paths(runtime);
  while (true) {
    const std::size_t comma = find_text(runtime, text, ",");
    paths.emplace_back(runtime, runtime.text(text.substr(0, comma)));
    if (comma == std::string_view::npos) return paths;
    text = text.substr(comma + 1);
  }
}

namespace {

// The arguments behind the first `used`.
Arguments rest_of(Runtime& runtime, const Arguments& arguments, std::size_t used) {
  runtime.step(arguments.positional.size() + arguments.keyword.size());
  Arguments rest(runtime);
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(used), arguments.positional.end());
  rest.keyword = arguments.keyword;
  return rest;
}

std::string_view name_argument(Runtime& runtime, const Value& value, std::string_view what) {
  const Text* text = value.text();
  if (text == nullptr) runtime.fail(concat(what, " is named by a str, not by a ", type_name(value)));
  return text->text;
}

// Jinja's generators look at their input only if it is true, so that none gives nothing.
Counted<Value> input_items(Runtime& runtime, const Value& input) {
  return truth(input) ? items_of(runtime, input) : Counted<Value>(runtime);
}

Value map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  Counted<Value> out = input_items(runtime, input);
  if (out.empty()) return runtime.generator(Counted<Value>(runtime));
  const bool by_attribute =
      arguments.positional.empty() &&
      std::any_of(arguments.keyword.begin(), arguments.keyword.end(), [](const auto& argument) { return argument.text() == "attribute"; });
  if (by_attribute) {
    const Parameters parameters(runtime, "filter 'map'", arguments, {"attribute", "default"});
    const AttributePath path(runtime, parameters.at(0));
    for (Value& item : out) item = path.follow(item, parameters.find(1));
    return runtime.generator(std::move(out));
  }
  if (arguments.positional.empty()) runtime.fail("filter 'map' needs an attribute or the name of a filter");
  const std::string_view name = name_argument(runtime, arguments.positional[0], "a filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr) runtime.unsupported("filter " + quote(name) + " is not offered (named in 'map')");
  const Arguments rest = rest_of(runtime, arguments, 1);
  const Runtime::EvaluationDepth depth(runtime);  // map may map
  for (Value& item : out) {
    runtime.step();
    item = filter->apply(runtime, item, rest);
  }
  return runtime.generator(std::move(out));
}

template <bool by_attribute, bool keep>
Value select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const Counted<Value> candidates = input_items(runtime, input);
  if (candidates.empty()) return runtime.generator(Counted<Value>(runtime));
  constexpr std::size_t used = by_attribute ? 1 : 0;
  if (arguments.positional.size() < used) runtime.fail("selectattr and rejectattr need the name of an attribute");
  std::optional<AttributePath> path;
  if (by_attribute) path.emplace(runtime, arguments.positional[0]);
  const Test* test = nullptr;
  Arguments rest(runtime);
  if (arguments.positional.size() > used) {
    const std::string_view name = name_argument(runtime, arguments.positional[used], "a test");
    test = find_test(name);
    if (test == nullptr) runtime.unsupported("test " + quote(name) + " is not offered");
    rest = rest_of(runtime, arguments, used + 1);
  }
  Counted<Value> out(runtime);
  for (const Value& candidate : candidates) {
    runtime.step();
    const Value tested = path ? path->follow(candidate) : candidate;
    if ((test == nullptr ? truth(tested) : test->holds(runtime, tested, rest)) == keep) out.push_back(candidate);
  }
  return runtime.generator(std::move(out));
}

constexpr Filter selection_filter_table[] = {{"map", map},
                                             {"reject", select<false, false>},
                                             {"rejectattr", select<true, false>},
                                             {"select", select<false, true>},
                                             {"selectattr", select<true, true>}};

}  // namespace

std::span<const Filter> selection_filters() noexcept { return selection_filter_table; }

}  // namespace quern::jinja
