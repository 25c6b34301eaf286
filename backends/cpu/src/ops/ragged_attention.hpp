// What attention_ragged and its gradient share: packed examples as calls of dense attention, and their blocks of rows.
//
// An example is a batch of its own: its rows are cut into blocks from its own first row, so that its bits do not depend on the others.
#pragma once

#include "vectorised.hpp"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

namespace quern::cpu {

constexpr std::size_t ragged_start = 3;  // the input that says where examples begin

/// A call of a ragged op as one of the dense op, whose inputs are the same but for `start`: some rows of it as one batch.
class DenseCall {
 public:
  /// All rows.
  explicit DenseCall(const Call& ragged) noexcept : DenseCall(ragged, 0, ragged.input(0).dims[0]) {}
  DenseCall(const Call& ragged, std::int64_t first, std::int64_t rows) noexcept : call_(ragged) {
    std::size_t inputs = 0;
    for (std::size_t i = 0; i < ragged.inputs.size(); ++i)
      if (i != ragged_start) inputs_[inputs++] = batch_of(ragged.inputs[i], first, rows);
    for (std::size_t i = 0; i < ragged.outputs.size(); ++i) outputs_[i] = batch_of(ragged.outputs[i], first, rows);
    call_.inputs = {inputs_, inputs};
    call_.outputs = {outputs_, ragged.outputs.size()};
  }
  DenseCall(const DenseCall&) = delete;
  DenseCall& operator=(const DenseCall&) = delete;

  const Call& call() const noexcept { return call_; }

 private:
  static Tensor batch_of(const Tensor& x, std::int64_t first, std::int64_t rows) noexcept {
    Tensor batch = x;
    if (!x.present()) return batch;
    batch.rank = x.rank + 1;
    batch.ranged = x.ranged << 1;
    for (std::uint32_t d = 0; d < x.rank; ++d) {
      batch.dims[d + 1] = x.dims[d];
      batch.strides[d + 1] = x.strides[d];
    }
    batch.dims[0] = 1;
    batch.strides[0] = 0;
    batch.dims[1] = rows;
    if (x.data != 0) batch.data += static_cast<std::uint64_t>(first * x.strides[0]);
    return batch;
  }

  Call call_;
  Tensor inputs_[6], outputs_[3];  // as many as the gradient has
};

/// Bytes of scratch for Examples.
inline std::uint64_t examples_bytes(const Call& call) noexcept {
  return static_cast<std::uint64_t>((call.input(ragged_start).dims[0] + 7) / 8) * 64;
}

/// The examples of a run, in blocks of rows.
class Examples {
 public:
  struct Block {
    std::int64_t first, rows;  // of its example
    std::int64_t begin;        // the first row of the block, counted in the example
  };

  /// Raises INDEX_RANGE for a start that is refused; no row is in an example then. `memory`: examples_bytes().
  Examples(const Call& call, std::int64_t block, std::byte* memory, Context& context) noexcept
      : start_(call.input(ragged_start)), block_(block), first_block_(reinterpret_cast<std::int64_t*>(memory)) {
    const std::int64_t rows = call.input(0).dims[0], starts = start_.dims[0];
    if (rows == 0) return;
    bool ascends = starts > 0 && load_integer(start_, 0) == 0;
    for (std::int64_t e = 1, last = 0; ascends && e < starts; ++e) {
      const std::int64_t next = load_integer(start_, e);
      ascends = last <= next && next <= rows;
      last = next;
    }
    if (!ascends) {
      context.fault(QUERN_FAULT_INDEX_RANGE);
      return;
    }
    count_ = starts - 1;
    end_ = load_integer(start_, count_);
    first_block_[0] = 0;
    for (std::int64_t e = 0; e < count_; ++e)
      first_block_[e + 1] = first_block_[e] + (load_integer(start_, e + 1) - load_integer(start_, e) + block_ - 1) / block_;
  }

  std::int64_t blocks() const noexcept { return count_ == 0 ? 0 : first_block_[count_]; }
  /// Rows from here on are in no example.
  std::int64_t end() const noexcept { return end_; }
  Block block(std::int64_t index) const noexcept {
    const std::int64_t example = std::upper_bound(first_block_, first_block_ + count_ + 1, index) - first_block_ - 1;
    const std::int64_t first = load_integer(start_, example);
    return {first, load_integer(start_, example + 1) - first, (index - first_block_[example]) * block_};
  }

 private:
  const Tensor& start_;
  std::int64_t block_, count_ = 0, end_ = 0;
  std::int64_t* first_block_;
};

/// Rows of x from `first` on become `value`.
inline void fill_rows_from(const Tensor& x, std::int64_t first, float value) noexcept {
  if (!x.present() || first >= x.dims[0]) return;
  float values[256];
  std::ranges::fill(values, value);
  const std::int64_t rows = x.rows(), n = x.last(), part = std::ssize(values);
  for (std::int64_t row = rows / x.dims[0] * first; row < rows; ++row)
    for (std::int64_t at = 0; at < n; at += part) store_row(x, row, at, std::min(part, n - at), values);
}

}  // namespace quern::cpu
