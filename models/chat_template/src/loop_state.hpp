// The 'loop' variable: where a loop is, and a look at what comes next.
#pragma once

#include "runtime.hpp"

#include <optional>

namespace quern::jinja {

/// Hands out the items that a running loop visits. Items are pulled one at a time, because the condition of a
/// loop may read what its body has set.
class LoopSource {
 public:
  virtual ~LoopSource() = default;
  virtual std::optional<Value> pull() = 0;
};

struct Loop;
class Scope;

/// A loop that runs, and the scope around it.
struct LoopPlace {
  const Loop* loop = nullptr;
  Scope* scope = nullptr;
  std::int64_t level = 0;  ///< of a recursive loop: calls of the loop variable around it
};

class LoopState {
 public:
  /// `length` is known where the iterable has one and the loop no condition. `depth` is that of the iterable.
  LoopState(Runtime& runtime, LoopSource& source, std::optional<std::int64_t> length, int depth, const LoopPlace& place)
      : source_(&source), ahead_(runtime), length_(length), depth_(depth), place_(place), charge_(runtime, shared_size<LoopState>) {}

  /// Goes on to the next item; false at the end.
  bool advance();
  /// The loop has ended; whoever still holds this sees no further items.
  void detach() noexcept { source_ = nullptr; }

  /// Null once the loop has ended.
  const LoopPlace* place() const noexcept { return source_ == nullptr ? nullptr : &place_; }
  const Value& current() const noexcept { return current_; }
  std::int64_t index0() const noexcept { return index0_; }
  int depth() const noexcept { return depth_; }
  /// Pulls all remaining items if the length was not known.
  std::int64_t length(Runtime& runtime);

  /// The attribute of this name ("index", "last", ...), or nothing.
  std::optional<Value> attribute(Runtime& runtime, std::string_view name);

 private:
  std::optional<Value> pull() { return source_ == nullptr ? std::nullopt : source_->pull(); }
  const Value* peek();

  LoopSource* source_;
  Counted<Value> ahead_;  ///< pulled; those below next_ahead_ are visited
  std::size_t next_ahead_ = 0;
  std::optional<std::int64_t> length_;
  int depth_;
  LoopPlace place_;
  std::int64_t index0_ = -1;
  Value current_, previous_;
  Charge charge_;
};

}  // namespace quern::jinja
