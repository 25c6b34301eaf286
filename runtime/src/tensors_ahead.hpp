// Tensors that are made of what lies in their file, some of them at once on all threads and ahead of their use.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace quern::runtime {

class TensorsAhead {
 public:
  /// Tensors of `file`, which has to outlive this, in the order in which next() gives them. With one thread none is made ahead. Otherwise
  /// those that are ahead have at most a sixteenth of all bytes together, at least 32 MiB and at most 384 MiB.
  TensorsAhead(const gguf::File& file, std::vector<const gguf::TensorInfo*> tensors, std::uint32_t threads);

  /// The next tensor's bytes. Throws what making one of those ahead throws: QUERN_BAD_MODEL for numbers that have no place.
  gguf::TensorBytes next();

  std::uint64_t most_ahead() const noexcept { return most_ahead_; }

 private:
  void make_some();

  const gguf::File& file_;
  std::vector<const gguf::TensorInfo*> tensors_;
  std::uint32_t threads_;
  std::uint64_t most_ahead_ = 0;
  std::size_t begun_ = 0;  // tensors that were made, or are
  std::deque<gguf::TensorBytes> made_;
};

}  // namespace quern::runtime
