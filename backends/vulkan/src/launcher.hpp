// Puts kernels into a command buffer; or, dry, only notes what pipelines and how many bytes of parameters they need.
#pragma once

#include "chain.hpp"
#include "gpu.hpp"

#include <initializer_list>

namespace quern::vulkan {

/// Bytes that a step reads or writes.
struct Touched {
  std::uint64_t begin = 0, end = 0;
  bool written = false;
};

/// Of a tensor.
Touched touched(const sdk::Tensor& tensor, bool written);

/// Whether parameters travel as push constants; kernels say the same by PUSHED or STORED, and the build compares.
template <class Params>
constexpr bool is_pushed = sizeof(Params) <= 128;

class Launcher {
 public:
  struct Grid {
    std::int64_t x = 1, y = 1, z = 1;
  };
  struct Target {
    VkCommandBuffer commands = VK_NULL_HANDLE;  // null: dry
    std::byte* parameters = nullptr;            // memory of both, where larger parameters lie
    std::uint64_t parameters_address = 0, parameters_bytes = 0;
    VkBuffer parameters_buffer = VK_NULL_HANDLE;
    std::uint64_t parameters_offset = 0;
    std::uint32_t slot = 0;                            // of the instance, for its faults
    bool persistent = false;                           // steps of one row become chains
    std::uint64_t exchange = 0;                        // memory of chains and counters, zero before the first run
    std::uint64_t scratch_begin = 0, scratch_end = 0;  // what nobody reads behind the run
  };
  Launcher(Gpu& gpu, const Target& target);

  /// What the next launches touch. Where that meets what launches since the last barrier wrote, or the reverse, a barrier comes before the
  /// first of them; a step without one leaves no trace.
  void begin_step(std::vector<Touched> touched);
  /// What the launches of this step touch besides; before the first of them.
  void touch(const Touched& more) { step_.push_back(more); }
  /// Words that are 0 before the first run and that each launch leaves so; for the next launch. 0 where there are fewer.
  std::uint64_t counters(std::uint32_t count);
  /// Goes on in another command buffer, which begins behind a barrier.
  void use(VkCommandBuffer commands) noexcept {
    target_.commands = commands;
    pending_.clear();
  }
  /// Launches of one step that depend on each other.
  void barrier();
  /// Instead of a launch: the step is launched before anything else is, with those before it of the same row, or as a stage of a chain where the
  /// device has persistent dispatches.
  void join(const OneRowProduct& product);
  /// Products that share a launch, at once.
  void launch_products(const std::vector<OneRowProduct>& products);
  /// False: it has to be launched.
  bool join(const AttentionParams& attention, int k_dtype, int v_dtype);
  /// Launches what has joined; at the end of a recording too.
  void flush();
  /// Until the next call, launches run only where the number at this address is not 0. 0: always.
  void set_predicate(std::uint64_t address) noexcept { predicate_ = address; }

  template <class Params>
  void launch(std::string_view kernel, std::uint32_t threads, Grid grid, const Params& params,
              std::initializer_list<std::int32_t> constants = {}) {
    static_assert(sizeof(Params) % 4 == 0);
    start(kernel, threads, grid, &params, sizeof params, is_pushed<Params>, constants);
  }

  const CardFacts& facts() const noexcept { return gpu_.facts(); }
  std::uint64_t faults() const noexcept { return gpu_.faults_address(target_.slot); }
  /// Threads of a workgroup that computes a row of so many elements together.
  std::uint32_t row_threads(std::int64_t elements) const noexcept;
  /// Threads of a workgroup whose invocations work alone, and a grid of such for `count` items; each strides through them.
  std::uint32_t item_threads() const noexcept { return facts().software() ? 64 : 256; }
  Grid spread(std::int64_t count) const noexcept;
  /// One workgroup a row, at most as many as a grid may have: kernels stride through the rest.
  Grid rows(std::int64_t count) const noexcept;

  std::uint32_t launches() const noexcept { return launches_; }
  std::uint64_t invocations() const noexcept { return invocations_; }
  std::uint64_t parameter_bytes() const noexcept { return used_; }
  /// Of Target::exchange.
  std::uint64_t exchange_bytes() const noexcept { return exchange_bytes_; }
  const std::vector<PipelineKey>& wanted() const noexcept { return wanted_; }

 private:
  void start(std::string_view kernel, std::uint32_t threads, Grid grid, const void* params, std::size_t bytes, bool pushed,
             std::initializer_list<std::int32_t> constants);
  void settle();
  void joined();
  void launch_chain(const Chain& chain);
  void dispatch(const PipelineKey& key, const void* params, std::size_t bytes, bool pushed, Grid grid, std::uint64_t indirect);
  /// Room in the parameters; its device address.
  std::uint64_t store(const void* data, std::size_t bytes);

  Gpu& gpu_;
  Target target_;
  std::vector<Touched> step_, pending_;
  bool begun_ = false;  // the step has not launched yet
  std::uint64_t predicate_ = 0, used_ = 0, exchange_bytes_ = 0;
  bool chained_ = false;          // a chain was launched
  std::unique_ptr<Chain> chain_;  // null: the device has none
  std::vector<Touched> joined_touched_;
  std::vector<OneRowProduct> alone_;  // of the same row, without a chain
  struct Unstored {                   // a result of a chain that no step was seen to read
    std::uint64_t begin = 0, end = 0;
    std::byte* address = nullptr;
  };
  std::vector<Unstored> unstored_;
  std::uint32_t launches_ = 0;
  std::uint64_t invocations_ = 0;
  std::vector<PipelineKey> wanted_;
};

}  // namespace quern::vulkan
