// What this machine's processor can read and multiply, measured now: the denominators of the bench.
#pragma once

#include <cstdint>
#include <vector>

namespace quern::runtime {

/// Reads one buffer again and again with several threads, each its own share, as weights are read.
class ReadBandwidth {
 public:
  /// Allocates and touches the buffer with the page size that weights get. Throws Error(QUERN_HOST_OUT_OF_MEMORY).
  ReadBandwidth(std::uint64_t bytes, std::uint32_t threads);
  ~ReadBandwidth();
  ReadBandwidth(const ReadBandwidth&) = delete;
  ReadBandwidth& operator=(const ReadBandwidth&) = delete;

  /// Best of `passes`, bytes per second. Every second pass asks for lines ahead.
  double measure(std::uint32_t passes);

 private:
  std::uint8_t* buffer_ = nullptr;
  std::uint64_t bytes_;
  std::uint32_t threads_;
};

enum class Arithmetic : std::uint8_t { f32, bf16, int8 };

/// Multiply-adds per second of `threads` threads, in the widest vectors of this processor: fused ones of f32; of bf16, pairs of them
/// where that is faster; or products of bytes that are added as integers (f32 where the processor has no instruction for them), in AMX's tiles where this
/// process may use them.
double multiply_add_peak(std::uint32_t threads, Arithmetic arithmetic);

/// Peak resident bytes of this process (VmHWM); 0 if the system does not tell.
std::uint64_t peak_resident_bytes();

}  // namespace quern::runtime
