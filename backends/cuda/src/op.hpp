// The contract between plans and ops: a call, what an op answers to it, and how it is launched.
//
// An op lives in ops/<op>.cpp: `refuse` says why a call cannot run (empty: it can) and is asked once, when a plan is compiled, with
// the largest dims; `emit` launches kernels for the dims of one run and allocates nothing; `scratch` tells what memory it needs.
#pragma once

#include "gpu.hpp"
#include "tensor.hpp"

#include <span>

namespace quern::cuda {

struct Call {
  std::uint32_t op = 0;
  std::span<const Tensor> inputs, outputs;
  Tensor predicate;  // absent, or numbers in device memory, for ops that ask it themselves
  const sdk::Attributes* attributes = nullptr;
  bool int8_allowed = false;  // float inputs may be rounded to int8 with scales
  bool bf16_allowed = false;  // float inputs may be rounded to bf16
  bool f16_allowed = false;   // to f16
  bool invariant = false;     // a row's bits may not depend on the other rows: one kernel and one order for any number of them
  Address scratch = 0;        // as large as `scratch` asked, 256-byte aligned
  Address counters = 0;       // counter_bytes of zeros that a kernel leaves as zeros

  const Tensor& input(std::size_t i) const noexcept;
  const Tensor& output(std::size_t i) const noexcept;
  std::int64_t integer(std::uint32_t key) const { return attributes->integer(key); }
  double real(std::uint32_t key) const { return attributes->real(key); }
};
constexpr std::uint64_t counter_bytes = 1 << 20;

/// Puts kernels on a stream; or, dry, only finds them, so that a later run finds them at hand.
class Launcher {
 public:
  /// `slot`: of the instance whose run it launches, for faults and for the host's small writes.
  Launcher(Gpu& gpu, bool dry, std::uint32_t slot = 0) : gpu_(gpu), dry_(dry), slot_(slot) {}

  struct Grid {
    std::int64_t x = 1, y = 1, z = 1;
  };
  /// `shared`: bytes of dynamic shared memory, for kernels that declare some.
  template <class Params>
  void launch(std::string_view unit, std::string_view name, Grid grid, unsigned block, const Params& params, unsigned shared = 0) {
    static_assert(sizeof(Params) <= 4096);
    if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
    start(gpu_.kernels().get(unit, name, shared), name, grid, block, &params, shared);
  }
  /// A grid of blocks of 256 threads for `count` items, each thread striding through them.
  Grid spread(std::int64_t count) const;

  /// A product of many rows in 16 bits (f16 or bf16): by cuBLASLt, or our own kernel.
  void dense(const DenseParams& params, bool half);

  /// Brings the mailbox's writes to their places. `captured`: in a graph, see Mailbox::copy_page; they are posted before it is launched.
  void deliver(bool captured = false);
  /// The same of what was posted and not delivered: the graph that would have was not started.
  void deliver_posted();
  /// Waits for what was launched and reads the predicate, one number. Not while a stream is captured.
  bool is_dead(const Tensor& predicate);

  Gpu& gpu() noexcept { return gpu_; }
  Address faults() const noexcept { return gpu_.faults_address(slot_); }
  int multiprocessors() const noexcept { return gpu_.facts().multiprocessors; }
  int major() const noexcept { return gpu_.facts().major; }
  std::uint32_t launches() const noexcept { return launches_; }

 private:
  void deliver_page(bool small);
  void start(Function function, std::string_view name, Grid grid, unsigned block, const void* params, unsigned shared);
  Gpu& gpu_;
  bool dry_;
  std::uint32_t slot_, launches_ = 0;
};

struct Op {
  std::uint32_t op;
  const char* kernel;  // "rms_norm.cuda"
  std::string (*refuse)(const Call& call);
  void (*emit)(const Call& call, Launcher& launcher);
  std::uint64_t (*scratch)(const Call& call) = nullptr;
  bool asks_predicate = false;  // its kernels do, one number or one a row; of other ops the host asks it before it launches
  bool (*fusable)(const Call& call) = nullptr;  // null: always; fused schedules know packed rows, and not all that `refuse` lets pass
};

/// The row of an op, or null where this plugin has none.
const Op* find_implementation(std::uint32_t op) noexcept;
/// Whether a kernel of one node has this name.
bool is_node_kernel(std::string_view name) noexcept;

// Checks that ops share; each returns an empty text or the reason.
std::string check_floats(const Tensor& tensor);
std::string check_dtype(const Tensor& tensor, quern_dtype dtype);
std::string check_rank(const Tensor& tensor, std::uint32_t rank);
std::string check_packed(const Tensor& tensor);  // contiguous
bool all_packed(const Call& call);
std::string check_same(const Tensor& a, const Tensor& b);
std::string check_dim(const Tensor& tensor, std::uint32_t dim, std::int64_t size);
/// The first that is not empty.
std::string first_of(std::initializer_list<std::string> reasons);
/// Whether each dim of `small`, aligned at the last, is 1 or that of `large`.
bool broadcasts(const Tensor& small, const Tensor& large);

}  // namespace quern::cuda
