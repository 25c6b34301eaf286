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

class LoopState {
 public:
  /// `length` is known where the iterable has one and the loop no condition. `depth` is that of the iterable.
  LoopState(Runtime& runtime, LoopSource& source, std::optional<std::int64_t> length, int depth)
      : source_(&source), ahead_(runtime), length_(length), depth_(depth), charge_(runtime, shared_size<LoopState>) {}

  /// Goes on to the next item; false at the end.
  bool advance();
  /// The loop has ended; whoever still holds this sees no further items.
  void detach() noexcept { source_ = nullptr; }

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
  std::int64_t index0_ = -1;
  Value current_, previous_;
  Charge charge_;
};

}  // namespace quern::jinja
