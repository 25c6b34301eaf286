// Tensors on a device, and one op at a time on them: a graph of one node, compiled, run and dropped.
#pragma once

#include "runtime.hpp"

#include "quern/graph/graph.hpp"

#include <atomic>
#include <span>

namespace quern::runtime {

/// Memory of one device with a dtype and a shape. Starts as zeros.
class Tensor {
 public:
  /// Throws Error(QUERN_INVALID_ARGUMENT) for a shape or dtype that cannot be, and as MemoryBudget::allocate.
  Tensor(std::shared_ptr<Runtime> runtime, std::shared_ptr<MemoryBudget> budget, quern_dtype dtype, std::vector<std::int64_t> shape);

  const std::shared_ptr<Runtime>& runtime() const noexcept { return runtime_; }
  const std::shared_ptr<MemoryBudget>& budget() const noexcept { return budget_; }
  const std::string& device() const noexcept { return budget_->device()->label(); }
  quern_dtype dtype() const noexcept { return dtype_; }
  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t elements() const noexcept;
  quern_span span() const noexcept { return memory_.span(0, bytes_); }
  /// "f32 [2, 3]".
  std::string describe() const;

  /// Throws Error(QUERN_INVALID_ARGUMENT) beyond the end.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  void check_range(std::uint64_t offset, std::uint64_t size) const;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<MemoryBudget> budget_;
  quern_dtype dtype_;
  std::vector<std::int64_t> shape_;
  std::uint64_t bytes_;
  Memory memory_;
};

/// `to` = `from`, over devices and dtypes. Throws Error(QUERN_INVALID_ARGUMENT) where shapes differ, and as run_op.
void copy_tensor(const Tensor& from, Tensor& to);

struct OpAttributeValue {
  std::string name;
  double value = 0;
};

struct OpRun {
  std::string op;
  std::vector<const Tensor*> inputs;  // null: absent
  std::vector<Tensor*> outputs;       // null: to be made
  std::vector<OpAttributeValue> attributes;
  bool fast = false;
};

struct OpResult {
  std::vector<std::unique_ptr<Tensor>> made;  // by output; null where it was given, is absent, or beyond OpRun::outputs
  std::string kernels;
};

/// Runs it to the end. Throws Error with QUERN_NOT_FOUND, QUERN_INVALID_ARGUMENT or QUERN_UNSUPPORTED before anything runs.
OpResult run_op(const OpRun& run);

}  // namespace quern::runtime
