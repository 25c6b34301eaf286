// The contract between the plan and the kernels: a call, a verdict, a table row, and what a running kernel may use.
//
// An op lives in ops/<op>.cpp: its checks, its kernels, and one table `<op>_kernels`, without which nothing is built. Rows stand most specific first; the first one whose Isa the CPU has and that accepts the call runs, and the
// verdicts of the rows before it are the reasons that plan_info tells. `accepts` is asked of calls of the right form alone: the SDK
// refuses other dtypes and shapes than the op has before (quern/sdk/forms.hpp).
#pragma once

#include "isa.hpp"
#include "thread_pool.hpp"
#include "view.hpp"

#include "quern/quern_ops.h"
#include "quern/quern_plan.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace quern::cpu {

using sdk::concat;

struct PackedLayout;

/// A call of the SDK's, and what kernels of a processor know beside it. `invariant` holds of every call where the user asked for `deterministic`.
/// A predicate of one element is handled by the plan and never seen here; only kernels with `row_predicate` get one a row.
struct Call : sdk::Call {
  std::uint32_t thread_count = 1;        // that the plugin has: for the size of scratch
  const PackedLayout* layout = nullptr;  // of the one input that is packed as panels (packed/packed.hpp); null: all of them lie in rows

  /// As the SDK's, but kernels cannot throw: 0 for a key that the op lacks.
  double real(std::uint32_t key) const noexcept { return attributes->number(key).f; }
  std::int64_t integer(std::uint32_t key) const noexcept { return attributes->number(key).i; }
  bool row_live(std::int64_t row) const noexcept { return !predicate.present() || load_integer(predicate, row) != 0; }
};

/// May this kernel run this call? A "no" is a sentence for the user, with values.
struct Verdict {
  quern_status code = QUERN_OK;
  std::string text;

  static Verdict yes() { return {}; }
  /// This kernel cannot; another may.
  static Verdict no(std::string reason) { return {QUERN_UNSUPPORTED, std::move(reason)}; }
  /// This row is for another dtype: no reason worth telling.
  static Verdict not_mine() { return {QUERN_NOT_FOUND, "no kernel of this plugin takes these dtypes"}; }
  explicit operator bool() const noexcept { return code == QUERN_OK; }
};

/// What a running kernel may use. No allocation: memory is `scratch`, as large as the kernel's `scratch` function asked.
class Context {
 public:
  Context(ThreadPool& pool, std::byte* scratch, std::uint64_t scratch_bytes, std::int64_t tiles_from, std::atomic<std::uint64_t>& faults,
          const std::atomic<std::uint32_t>& cancelled) noexcept
      : pool_(pool),
        turn_(pool),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes),
        tiles_from_(tiles_from),
        faults_(faults),
        cancelled_(cancelled) {}

  std::uint32_t thread_count() const noexcept { return pool_.size(); }
  /// 64-byte aligned, undefined at the start of the call.
  std::byte* scratch() const noexcept { return scratch_; }
  std::uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  /// Of selection.hpp.
  std::int64_t tiles_from() const noexcept { return tiles_from_; }
  /// QUERN_FAULT_... bits for the run's status. From any thread.
  void fault(std::uint64_t bits) noexcept { faults_.fetch_or(bits, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed) != 0; }

  /// Calls body(begin, end, thread) for parts of [0, count) of at most `grain` items, spread over the pool; returns when all are
  /// done. A part should take under 10 ms: cancellation is looked at between parts, and skips the rest. Results must not
  /// depend on the partition. thread < thread_count(). Not to be nested.
  template <typename Body>
  void parallel(std::int64_t count, std::int64_t grain, const Body& body) noexcept {
    pool_.run(
        count, grain, &cancelled_,
        [](const void* b, std::int64_t begin, std::int64_t end, std::uint32_t thread) {
          (*static_cast<const Body*>(b))(begin, end, thread);
        },
        &body, turn_);
  }

 private:
  ThreadPool& pool_;
  ThreadPool::Turn turn_;
  std::byte* scratch_;
  std::uint64_t scratch_bytes_;
  std::int64_t tiles_from_;
  std::atomic<std::uint64_t>& faults_;
  const std::atomic<std::uint32_t>& cancelled_;
};

/// One row of a kernel table.
struct Kernel {
  std::uint32_t op;
  const char* name;  // "rms_norm.avx2"; the family (portable, avx2, avx512, openblas) is the last part
  Isa isa;           // what the CPU needs for it
  Verdict (*accepts)(const Call& call);
  void (*run)(const Call& call, Context& context) noexcept;
  /// Bytes of scratch for a call of these dims and thread_count; null: none. Grows with each dim.
  std::uint64_t (*scratch)(const Call& call) noexcept = nullptr;
  bool row_predicate = false;  // asks call.row_live(row) before it writes what row `row` of input 0 gives
  bool packed = false;         // takes packed weights (Call::layout); others never see them
};

/// All tables. Defined in kernel_table.cpp.
std::span<const std::span<const Kernel>> kernel_tables() noexcept;

/// For kernels that run every call of the right form.
inline Verdict accepts_any(const Call&) { return Verdict::yes(); }

}  // namespace quern::cpu
