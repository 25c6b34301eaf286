// Small writes of the host to device memory: they wait until the next run, whose first kernel delivers them from a copy of a page of pinned host
// memory. (Kernels that read host memory themselves took 240 us for this on an H200, most of it in waiting.) There is a page for each slot of an
// instance: a run that is started behind another has its writes while that one's page is still being copied.
//
// So a step that changes ten values of a few bytes costs no copy of its own, and a captured graph replays unchanged. Also the other
// way: small outputs are written to mapped memory by a run's last kernel, and a download of them is a memcpy.
#pragma once

#include "driver.hpp"
#include "kernels/params.hpp"

#include "quern/sdk/run_list.hpp"

#include <memory>
#include <vector>

namespace quern::cuda {

class Mailbox {
 public:
  static constexpr std::uint32_t page_bytes = 16384, capacity_entries = 63, capacity_bytes = page_bytes - 1024,
                                 largest = capacity_bytes - 16;
  /// What a decode step needs: the list and the first writes. A captured graph copies no more (H200: 16 KiB take 3.5 us, 1 KiB 1.8).
  static constexpr std::uint32_t small_bytes = 2048;

  explicit Mailbox(std::shared_ptr<const Driver> driver);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Whether `bytes` more fit. What does not fit after post(), or is above `largest`, is for a plain copy.
  bool fits(std::uint64_t bytes) const noexcept;
  /// Takes a copy; only after fits().
  void put(Address to, const void* bytes, std::uint32_t count) noexcept;
  bool empty() const noexcept { return *count_ == 0; }
  /// Puts what waits, if only that there is nothing, into the page of a slot that no run has under way; nothing waits then.
  void post(std::uint32_t slot) noexcept;
  /// Enqueues the copy of the page, before the kernel `deliver` with params(); `small`: of the first small_bytes, as a captured graph
  /// has it. Both stay the same from run to run.
  void copy_page(Stream stream, std::uint32_t slot, bool small) const;
  /// Before such a graph is launched, behind post(): enqueues the copy of what it does not copy, where there is any.
  void copy_rest(Stream stream, std::uint32_t slot) const;
  const PatchParams& params() const noexcept { return params_; }

  /// Mapped memory for a copy of an output; null when there is no more. Stays valid as long as the mailbox.
  struct Mirror {
    Address from = 0;  // in device memory
    std::uint32_t bytes = 0;
    void* host = nullptr;
    Address device = 0;  // of `host`
    bool valid = false;
  };
  Mirror* add_mirror(Address from, std::uint32_t bytes);
  void remove_mirror(Mirror* mirror) noexcept;
  /// The host's copy of these bytes, or null if it is not up to date.
  const void* mirrored(Address from, std::uint64_t bytes) const noexcept;
  /// Device memory in this range is about to change by other means.
  void forget(Address from, std::uint64_t bytes) noexcept;

 private:
  void take();
  void give_back() noexcept;

  const std::byte* page(std::uint32_t slot) const noexcept { return memory_ + std::size_t{slot} * page_bytes; }

  std::shared_ptr<const Driver> driver_;
  std::byte* memory_ = nullptr;  // pinned: a page a slot, then mirrors
  DevicePointer page_ = 0;       // of the device: one, since runs deliver one after another
  std::unique_ptr<std::byte[]> waiting_;
  std::uint32_t* count_ = nullptr;  // in waiting_, as the next two
  Patch* entries_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::uint32_t posted_[sdk::most_runs_under_way] = {};  // bytes of each page
  std::byte* mirrors_ = nullptr;
  Address mirrors_device_ = 0;
  std::uint32_t used_ = 0;
  PatchParams params_{};
  static constexpr std::uint32_t mirror_bytes = 4096, mirror_count = 64;
  std::vector<std::unique_ptr<Mirror>> list_;
};

}  // namespace quern::cuda
