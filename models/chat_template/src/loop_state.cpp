// Attributes of 'loop', as Jinja's LoopContext answers them.
#include "loop_state.hpp"

namespace quern::jinja {

const Value* LoopState::peek() {
  if (next_ahead_ == ahead_.size()) {
    std::optional<Value> next = pull();
    if (!next) return nullptr;
    ahead_.clear();
    next_ahead_ = 0;
    ahead_.push_back(std::move(*next));
  }
  return &ahead_[next_ahead_];
}

bool LoopState::advance() {
  if (peek() == nullptr) return false;
  previous_ = std::move(current_);
  current_ = std::exchange(ahead_[next_ahead_], Value());
  ++next_ahead_;
  ++index0_;
  return true;
}

std::int64_t LoopState::length(Runtime& runtime) {
  if (!length_) {
    while (std::optional<Value> next = pull()) {
      runtime.step();
      ahead_.push_back(std::move(*next));
    }
    length_ = static_cast<std::int64_t>(ahead_.size() - next_ahead_) + index0_ + 1;
  }
  return *length_;
}

std::optional<Value> LoopState::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(peek() == nullptr);
  if (name == "length") return Value(length(runtime));
  if (name == "revindex") return Value(length(runtime) - index0_);
  if (name == "revindex0") return Value(length(runtime) - index0_ - 1);
  if (name == "depth") return Value(place_.level + 1);
  if (name == "depth0") return Value(place_.level);
  if (name == "previtem") return index0_ <= 0 ? runtime.undefined("there is no previous item") : previous_;
  if (name == "nextitem") {
    const Value* next = peek();
    return next == nullptr ? runtime.undefined("there is no next item") : *next;
  }
  return std::nullopt;
}

}  // namespace quern::jinja
