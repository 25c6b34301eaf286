// The contract between plans and ops: a call, what an op answers to it, and how it is launched.
//
// An op lives in ops/<op>.cpp, whose row `<op>_op` says what it serves; without one nothing is built. `refuse` says why a call of the right form
// cannot run (empty: it can; null: each can) and is asked once, when a plan is compiled, with the largest dims. `emit` launches kernels for the
// dims of one run and allocates nothing. `scratch` tells what memory it needs.
#pragma once

#include "gpu.hpp"
#include "kernel_ids.hpp"
#include "lane.hpp"
#include "tensor.hpp"

#include <span>
#include <type_traits>

namespace quern::cuda {

using sdk::Call;
using sdk::check_contiguous;
using sdk::check_dtype;
using sdk::check_floats;
using sdk::check_packed_f32;
using sdk::check_rank;
using sdk::first_of;

/// Zeros that kernels count in and leave as zeros: Call::counters.
constexpr std::uint64_t counter_bytes = 1 << 20;

/// Puts kernels on a lane's stream; or, dry, only finds them, so that a later run finds them at hand.
class Launcher {
 public:
  /// `slot`: of the instance whose run it launches, for faults and for the host's small writes.
  Launcher(Lane& lane, bool dry, Slot& slot) : lane_(lane), gpu_(lane.gpu()), dry_(dry), slot_(slot) {}

  struct Grid {
    std::int64_t x = 1, y = 1, z = 1;
  };
  /// `shared`: bytes of dynamic shared memory, for kernels that declare some. `cluster`: neighbours along x that run together, at most 8; more than
  /// one only where the card has_bulk_copies().
  template <class Params>
  void launch(const KernelId<Params>& kernel, Grid grid, unsigned block, const std::type_identity_t<Params>& params, unsigned shared = 0,
              unsigned cluster = 1) {
    static_assert(sizeof(Params) <= 4096);
    if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
    start(gpu_.kernels().get(kernel, shared), kernel.name, grid, block, &params, shared, cluster);
  }
  /// How many clusters of such a launch the card runs at once.
  template <class Params>
  std::int64_t clusters_at_once(const KernelId<Params>& kernel, unsigned block, unsigned shared, unsigned cluster) {
    return gpu_.kernels().clusters_at_once(kernel, block, shared, cluster);
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
  Lane& lane() noexcept { return lane_; }
  Address faults() const noexcept { return slot_.faults_device; }
  int multiprocessors() const noexcept { return gpu_.facts().multiprocessors; }
  int major() const noexcept { return gpu_.facts().major; }
  const CardFacts& card() const noexcept { return gpu_.facts(); }
  std::uint32_t launches() const noexcept { return launches_; }

 private:
  void deliver_page(bool small);
  void start(Function function, std::string_view name, Grid grid, unsigned block, const void* params, unsigned shared, unsigned cluster);
  Lane& lane_;
  Gpu& gpu_;
  bool dry_;
  Slot& slot_;
  std::uint32_t launches_ = 0;
};

/// An op whose kernels ask the predicate, one number or one a row, has row_predicate; of others the host asks it before it launches.
struct Op : sdk::OpOffer {
  using Scratch = std::uint64_t (*)(const Call& call);
  using Fusable = bool (*)(const Call& call);
  constexpr Op(std::uint32_t id, const char* name, std::string (*refuses)(const Call&), void (*emits)(const Call&, Launcher&),
               Scratch needs = nullptr, bool asks_predicate = false, Fusable fuses = nullptr)
      : OpOffer{id, name, refuses, asks_predicate}, emit(emits), scratch(needs), fusable(fuses) {}

  void (*emit)(const Call& call, Launcher& launcher);
  Scratch scratch;
  Fusable fusable;  // null: always; fused schedules know packed rows, and not all that `refuse` lets pass
};

/// Whether a kernel of one node has this name.
bool is_node_kernel(std::string_view name) noexcept;

/// What this plugin answers.
const sdk::Offers& offers() noexcept;
bool all_packed(const Call& call);

}  // namespace quern::cuda
