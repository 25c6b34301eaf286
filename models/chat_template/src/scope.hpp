// The variables of one scope. A loop turn, a macro call and some blocks open one; reading looks outwards,
// setting does not.
#pragma once

#include "ast.hpp"
#include "runtime.hpp"

#include <memory>

namespace quern::jinja {

class Scope {
 public:
  Scope(Runtime& runtime, Scope* parent) : parent_(parent), charge_(runtime, sizeof(Scope) + block_overhead), values_(runtime) {}

  /// Null if no scope from here outwards has it.
  const Value* find(Runtime& runtime, NameId id) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      runtime.step(1 + scope->values_.size() / 8);
      for (const auto& [name, value] : scope->values_) {
        if (name == id) return &value;
      }
    }
    return nullptr;
  }

  void set(Runtime& runtime, NameId id, Value value) {
    runtime.step(1 + values_.size() / 8);
    for (auto& [name, held] : values_) {
      if (name == id) {
        held = std::move(value);
        return;
      }
    }
    values_.emplace_back(id, std::move(value));
  }

  /// A macro defined here may outlive the scope, which must then be kept, and those around it.
  void mark_captured() noexcept {
    for (Scope* scope = this; scope != nullptr && !scope->captured_; scope = scope->parent_) scope->captured_ = true;
  }
  bool captured() const noexcept { return captured_; }

  std::unique_ptr<Scope> kept_before;  // of those that macros may still read: a list, since keeping one must not need memory

 private:
  Scope* parent_;
  bool captured_ = false;
  Charge charge_;
  Counted<std::pair<NameId, Value>> values_;
};

}  // namespace quern::jinja
