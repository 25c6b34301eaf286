// Tensors that are made of what lies in their file: by all threads, and some of them while those before are used.
#pragma once

#include "quern/models/gguf.hpp"
#include "quern/sdk/thread.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

namespace quern::runtime {

class TensorsAhead {
 public:
  /// When others are made: while those before them are used, which pays where a device copies them, or between, where all threads pack them.
  enum class Making : std::uint8_t { beside_use, between_uses };

  /// Tensors of `file`, which has to outlive this, in the order in which next() gives them. With one thread none is made ahead. Otherwise
  /// those that are made have at most a sixteenth of all bytes together, at least 32 MiB and at most 384 MiB, or one is larger by itself.
  TensorsAhead(const gguf::File& file, std::vector<const gguf::TensorInfo*> tensors, std::uint32_t threads, Making making);

  /// Whether next() makes others or turns to those that are made: what it gave before is gone then.
  bool turns() const noexcept { return given_ == now_.end; }
  /// The next tensor's bytes, until a call that turns to others. Throws what making one throws: QUERN_BAD_MODEL for numbers that have no place. Of several
  /// such tensors the first is named, and of its rows the first.
  std::span<const std::byte> next();

  std::uint64_t most_ahead() const noexcept { return most_ahead_; }

 private:
  /// Neighbours that are made at once, and those between them that lie as they are read.
  struct Batch {
    std::size_t end = 0;      // tensors that are in it or before it
    std::uint64_t bytes = 0;  // that are made
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t capacity = 0;
    std::vector<std::span<const std::byte>> tensors;
    std::exception_ptr failure;

    void forget_memory() noexcept {
      memory.reset();
      capacity = 0;
    }
  };

  /// Of a batch that is made at once.
  std::uint64_t most_of_batch() const noexcept { return making_ == Making::beside_use ? most_ahead_ / 2 : most_ahead_; }
  void turn_to_next();
  void choose(Batch& batch, std::size_t first) const;
  void make(Batch& batch, std::size_t first) const;
  void make_parts(Batch& batch, std::size_t first) const;

  const gguf::File& file_;
  std::vector<const gguf::TensorInfo*> tensors_;
  std::uint32_t threads_;
  Making making_;
  std::uint64_t most_ahead_ = 0;
  std::size_t given_ = 0;
  Batch now_, soon_;
  bool soon_is_made_ = false;  // or is being made
  sdk::Thread maker_;          // of soon_; the last member, so that it ends before what it uses
};

}  // namespace quern::runtime
