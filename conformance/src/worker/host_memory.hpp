// Host memory for large cases: taken before anything is filled, so that the kernel has no reason to end a process, and given back.
#pragma once

#include "case_table/case.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace quern::conformance {

/// Bytes that a case takes at most in all processes of a lane, as if the device's memory were the host's.
std::uint64_t host_bytes(const Case& c);
/// What this machine, and the group of processes that it is limited to, can still give.
std::uint64_t available_host_bytes();

/// Shared by all lanes. A case below `worth_counting` is not counted; what one of `worth_returning` took, its lane does not keep.
class HostMemory {
 public:
  /// `limit`: what large cases may take together at most; 0: nine tenths of what `available` says.
  explicit HostMemory(std::uint64_t limit = 0, std::function<std::uint64_t()> available = available_host_bytes)
      : limit_(limit), available_(std::move(available)) {}

  static constexpr std::uint64_t worth_counting = std::uint64_t{1} << 30, worth_returning = std::uint64_t{4} << 30;

  /// Holds its bytes as long as it lives.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(HostMemory& from, std::uint64_t bytes) : from_(&from), bytes_(bytes) {}
    ~Reservation();
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&&) = delete;
    bool large() const noexcept { return bytes_ >= worth_returning; }

   private:
    HostMemory* from_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  /// Waits until `bytes` fit beside what others hold. `lacking` is set where they do not fit alone.
  Reservation reserve(std::uint64_t bytes, std::string& lacking);

 private:
  std::mutex mutex_;
  std::condition_variable given_back_;
  const std::uint64_t limit_;
  const std::function<std::uint64_t()> available_;
  std::uint64_t held_ = 0, room_ = 0;
};

}  // namespace quern::conformance
