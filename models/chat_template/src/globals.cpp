// The functions that a template may call: range, dict, namespace, raise_exception, strftime_now.
#include "library.hpp"

#include "calendar.hpp"
#include "operators.hpp"
#include "printing.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

namespace quern::jinja {

namespace {

Value range(Runtime& runtime, const Arguments& arguments) {
  const Parameters parameters(runtime, "range", arguments, {"start", "stop", "step"}, 1);
  if (!arguments.keyword.empty()) runtime.fail("range takes no named arguments");
  const bool has_stop = parameters.find(1) != nullptr;
  const std::int64_t start = has_stop ? parameters.integer(0, 0) : 0;
  const std::int64_t stop = parameters.integer(has_stop ? 1 : 0, 0);
  const std::int64_t step = parameters.integer(2, 1);
  if (step == 0) runtime.fail("range: the step is 0");
  return runtime.range(start, stop, step);
}

// What dict(...) takes: a mapping or pairs, then named values.
Entries entries_of(Runtime& runtime, std::string_view what, const Arguments& arguments) {
  Entries entries(runtime);
  if (arguments.positional.size() > 1) {
    runtime.fail(concat(what, " takes at most 1 argument without a name and got ", arguments.positional.size()));
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Mapping* mapping = source.mapping()) {
      runtime.step(mapping->entries.size());
      entries = mapping->entries;
    } else {
      for (const Value& item : items_of(runtime, source)) {
        const Counted<Value> pair = items_of(runtime, item);
        if (pair.size() != 2) runtime.fail(concat(what, " needs pairs and found ", pair.size(), " items"));
        set_entry(runtime, entries, pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) set_entry(runtime, entries, name, value);
  return entries;
}

Value dict(Runtime& runtime, const Arguments& arguments) { return runtime.mapping(entries_of(runtime, "dict", arguments)); }

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  const Value made = runtime.new_namespace();
  for (const auto& [key, value] : entries_of(runtime, "namespace", arguments)) {
    const Text* name = key.text();
    if (name == nullptr) runtime.fail(concat("namespace: a name is a str, not a ", type_name(key)));
    if (name->text.starts_with('_')) runtime.unsupported("namespace: no name may begin with '_'");
    made.names()->set(runtime, name->text, value);
  }
  return made;
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Parameters parameters(runtime, "raise_exception", arguments, {"message"}, 1);
  const Value message = to_text(runtime, parameters.at(0));
  constexpr std::size_t longest = 2000;  // the message may quote a whole chat
  runtime.refuse(concat("the template refuses these messages: ", cut_text(message.text()->text, longest)));
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Parameters parameters(runtime, "strftime_now", arguments, {"format"}, 1);
  if (!runtime.now()) runtime.refuse("the template asks for the time (strftime_now) and no time was given");
  return format_time(runtime, parameters.text(0), *runtime.now());
}

constexpr GlobalFunction global_table[] = {
    {"dict", dict}, {"namespace", make_namespace}, {"raise_exception", raise_exception}, {"range", range}, {"strftime_now", strftime_now}};

}  // namespace

const GlobalFunction* find_global(std::string_view name) noexcept {
  for (const GlobalFunction& function : global_table) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace quern::jinja
