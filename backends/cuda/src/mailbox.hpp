// Small writes of the host to device memory: they wait until the next run of their lane, whose first kernel delivers them from a copy of a page
// of pinned host memory. (Kernels that read host memory themselves took 240 us for this on an H200, most of it in waiting.) Each instance has a page
// (slots.hpp): a run that is started behind another has its writes while that one's page is still being copied.
//
// So a step that changes ten values of a few bytes costs no copy of its own, and a captured graph replays unchanged.
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"
#include "mirrors.hpp"
#include "slots.hpp"

#include <memory>

namespace quern::cuda {

class Mailbox {
 public:
  static constexpr std::uint32_t page_bytes = Slots::page_bytes, capacity_entries = 63, capacity_bytes = page_bytes - 1024,
                                 largest = capacity_bytes - 16;
  /// What a decode step needs: the list and the first writes. A captured graph copies no more (H200: 16 KiB take 3.5 us, 1 KiB 1.8).
  static constexpr std::uint32_t small_bytes = 2048;

  Mailbox(const Driver& driver, Mirrors& mirrors);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Whether `bytes` more fit. What does not fit after post(), or is above `largest`, is for a plain copy.
  bool fits(std::uint64_t bytes) const noexcept;
  /// Takes a copy; only after fits().
  void put(Address to, const void* bytes, std::uint32_t count) noexcept;
  bool empty() const noexcept { return *count_ == 0; }
  /// Puts what waits, if only that there is nothing, into the page of a slot that no run has under way; nothing waits then.
  void post(Slot& slot) noexcept;
  /// Enqueues the copy of the page, before the kernel `deliver` with params(); `small`: of the first small_bytes, as a captured graph
  /// has it. Both stay the same from run to run.
  void copy_page(Stream stream, const Slot& slot, bool small) const;
  /// Before such a graph is launched, behind post(): enqueues the copy of what it does not copy, where there is any.
  void copy_rest(Stream stream, const Slot& slot) const;
  const PatchParams& params() const noexcept { return params_; }

 private:
  const Driver& driver_;
  Mirrors& mirrors_;
  DevicePointer page_ = 0;  // of the device: one, since the runs of a lane deliver one after another
  std::unique_ptr<std::byte[]> waiting_;
  std::uint32_t* count_ = nullptr;  // in waiting_, as the next two
  Patch* entries_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::uint32_t used_ = 0;
  PatchParams params_{};
};

}  // namespace quern::cuda
