// Looking into values.
#include "value.hpp"

#include "loop_state.hpp"
#include "operators.hpp"

#include <algorithm>

namespace quern::jinja {

const Value* Mapping::find(Runtime& runtime, const Value& key) const {
  for (const auto& [held, value] : entries) {
    if (equal(runtime, held, key)) return &value;
  }
  return nullptr;
}

namespace {

// Whether two names are equal, at the cost of their length.
bool same_name(Runtime& runtime, std::string_view left, std::string_view right) {
  runtime.step();
  if (left.size() != right.size()) return false;
  runtime.step_text(left.size());
  return left == right;
}

}  // namespace

const Value* Namespace::find(Runtime& runtime, std::string_view name) const {
  for (const auto& [held, value] : attributes) {
    if (same_name(runtime, held, name)) return &value;
  }
  return nullptr;
}

void Namespace::set(Runtime& runtime, std::string_view name, Value value) {
  for (auto& [held, current] : attributes) {
    if (same_name(runtime, held, name)) {
      current = std::move(value);
      return;
    }
  }
  charge.grow(name.size() + block_overhead);
  attributes.emplace_back(name, std::move(value));
}

int Value::depth() const noexcept {
  if (const Sequence* held = sequence()) return held->depth;
  if (const Mapping* held = mapping()) return held->depth;
  if (const Iterator* held = iterator()) return held->source->depth;
  if (const LoopState* held = loop()) return held->depth() + 1;
  if (const Callable* held = callable()) {
    const auto* bound = std::get_if<BoundMethod>(&held->target);
    return bound == nullptr ? 0 : bound->self.depth() + 1;
  }
  return 0;
}

std::string_view type_name(const Value& value) noexcept {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "Undefined"; }
    std::string_view operator()(const None&) const { return "NoneType"; }
    std::string_view operator()(bool) const { return "bool"; }
    std::string_view operator()(std::int64_t) const { return "int"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const std::shared_ptr<const Text>&) const { return "str"; }
    std::string_view operator()(const std::shared_ptr<const Sequence>& held) const {
      constexpr std::string_view names[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
      return names[static_cast<std::size_t>(held->kind)];
    }
    std::string_view operator()(const std::shared_ptr<Iterator>&) const { return "generator"; }
    std::string_view operator()(const std::shared_ptr<const Mapping>&) const { return "dict"; }
    std::string_view operator()(Namespace*) const { return "Namespace"; }
    std::string_view operator()(const std::shared_ptr<LoopState>&) const { return "LoopContext"; }
    std::string_view operator()(const std::shared_ptr<const Callable>& held) const {
      return std::holds_alternative<MacroClosure>(held->target) ? "Macro" : "function";
    }
  };
  return std::visit(Namer{}, value.storage());
}

}  // namespace quern::jinja
