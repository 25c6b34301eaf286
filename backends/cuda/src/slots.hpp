// What a run needs of pinned host memory: a page for the host's small writes (mailbox.hpp), and words that its kernels set for faults.
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace quern::cuda {

struct Slot {
  std::byte* page = nullptr;
  std::uint32_t posted = 0;  // bytes of the page
  volatile std::uint32_t* faults = nullptr;
  Address faults_device = 0;
  bool taken = false;

  /// QUERN_FAULT_ bits, which are cleared.
  std::uint64_t take_faults() noexcept;
};

/// Slots of one card; any thread. The card's context is current in every call.
class Slots {
 public:
  static constexpr std::uint32_t page_bytes = 16384, faults_bytes = 16;

  explicit Slots(const Driver& driver) : driver_(driver) {}
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  /// Throws Failure where there is no pinned memory.
  Slot* take();
  /// Nothing on the card reads or writes it any more.
  void give(Slot* slot) noexcept;

 private:
  static constexpr std::size_t chunk_slots = 8;  // that one piece of pinned memory has
  /// The first of the new ones.
  Slot* grow();

  const Driver& driver_;
  std::mutex mutex_;
  std::vector<void*> chunks_;
  std::vector<std::unique_ptr<Slot>> all_;
};

}  // namespace quern::cuda
