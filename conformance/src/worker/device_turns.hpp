// Turns on devices that processes share by slices of time.
//
// A card runs one process at a time, for a slice, and a process that waits for its own spins meanwhile. So more processes than a few make each
// case slower and none sooner. Lanes are more than turns: what they do on the host, the data, the references and the judge, goes on beside.
#pragma once

#include "worker/target.hpp"

#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

namespace quern::conformance {

/// Shared by all lanes. A lane takes turns of several targets in their order, so that none waits for another in a circle.
class DeviceTurns {
 public:
  static constexpr std::ptrdiff_t on_a_card = 2;  // one computes while the others read, check and fill

  explicit DeviceTurns(const std::vector<Target>& targets) {
    for (const Target& target : targets)
      turns_.push_back(target.runs_on_processors() ? nullptr : std::make_unique<std::counting_semaphore<on_a_card>>(on_a_card));
  }

  bool limited(std::size_t target) const noexcept { return turns_[target] != nullptr; }

  /// A turn as long as it lives; of a target whose turns are not limited, nothing.
  class Turn {
   public:
    Turn() = default;
    Turn(DeviceTurns& turns, std::size_t target) : of_(turns.turns_[target].get()) {
      if (of_ != nullptr) of_->acquire();
    }
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(of_, other.of_);
      return *this;
    }
    ~Turn() { end(); }
    void end() noexcept {
      if (of_ != nullptr) std::exchange(of_, nullptr)->release();
    }

   private:
    std::counting_semaphore<on_a_card>* of_ = nullptr;
  };

 private:
  std::vector<std::unique_ptr<std::counting_semaphore<on_a_card>>> turns_;
};

}  // namespace quern::conformance
