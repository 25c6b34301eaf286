// The plugin behind the SDK's functions: its cards, an opened one, its memory, and a plan as the host's options ask for it.
#pragma once

#include "plan.hpp"
#include "weights.hpp"

#include "quern/sdk/work_queue.hpp"

#include <array>

namespace quern::cuda {

/// A piece of device memory; given back when it ends.
class Memory {
 public:
  Memory(Gpu& gpu, std::uint64_t bytes, const char* what);
  Memory(Memory&& other) noexcept : gpu_(other.gpu_), bytes_(other.bytes_), address_(std::exchange(other.address_, 0)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory();
  Address address() const noexcept { return address_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  Gpu& gpu_;
  std::uint64_t bytes_;
  DevicePointer address_;
};

/// A lane of the plugin's host, as sdk/work_queue.hpp wants it.
class Queue : public Lane {
 public:
  using Lane::Lane;
  void write(Memory& to, std::uint64_t offset, const void* from, std::uint64_t bytes);
  const void* read(void* to, const Memory& from, std::uint64_t offset, std::uint64_t bytes);
  void move(Memory& to, std::uint64_t to_offset, const Memory& from, std::uint64_t from_offset, std::uint64_t bytes);
  void fill(Memory& to, std::uint64_t offset, std::uint32_t pattern, std::uint64_t bytes);
  void pack(const sdk::PlaneLayout& layout, const Memory& from, std::uint64_t offset, Memory& to, std::uint64_t to_offset);
};

/// An opened card. trim() and retire() are called with order() held.
class Device : public Gpu {
 public:
  static constexpr std::uint64_t view_alignment = 16;  // kernels load 16 bytes at once

  Device(std::shared_ptr<const Driver> driver, const CardFacts& card, const KernelOrigin& origin, const quern_host& host);
  const quern_host& host() const noexcept { return host_; }
  const sdk::Offers& offers() const noexcept { return cuda::offers(); }
  const sdk::PlanePacking* packing() const noexcept { return &plane_packing(); }

  std::uint32_t heap_count() const noexcept { return 1; }
  quern_heap_info heap(std::uint32_t) const;
  void limit(std::uint32_t, std::uint64_t bytes) noexcept { set_limit(bytes); }
  Memory allocate(std::uint64_t bytes, std::uint32_t) { return Memory(*this, bytes, "a buffer"); }
  /// Nothing may be written to it later.
  void retire(Memory& memory);
  void trim(std::uint32_t level);
  /// One that a host has given back, if there is one: streams and pinned memory take longer to make than a small run.
  std::shared_ptr<Queue> make_queue();

 private:
  static constexpr std::size_t most_idle = 2;
  void give_back(std::unique_ptr<Queue> queue) noexcept;

  const quern_host& host_;
  std::mutex idle_mutex_;
  std::array<std::unique_ptr<Queue>, most_idle> idle_;
};

/// A plan with the kernels that the host's option and the compile options ask for.
struct CompiledPlan : Plan {
  CompiledPlan(Device& device, const quern_graph* host_graph, const quern_compile_options& options, std::vector<std::uint32_t>& refused);
  std::uint32_t launches = 0;
};

class Backend {
 public:
  using Device = cuda::Device;
  using Memory = cuda::Memory;
  using Queue = cuda::Queue;
  using Layout = sdk::PlaneLayout;
  using Plan = CompiledPlan;
  using Instance = cuda::Instance;

  /// Refuses a forced kernel that this plugin has not, and an option `memory` that no plugin has.
  explicit Backend(const quern_host& host);
  /// Opens the driver at first use and lists the cards. Throws Failure with what is missing.
  std::uint32_t device_count();
  const char* no_device() const noexcept { return "the driver sees no NVIDIA GPU"; }
  quern_device_info device_info(std::uint32_t index, sdk::Texts& texts);
  void prove(std::uint32_t index);
  void explain(const Failure& failure, quern_reason& reason, sdk::Texts& texts) const;
  std::unique_ptr<Device> open(std::uint32_t index) { return open(card(index), false); }

 private:
  const CardFacts& card(std::uint32_t index);
  std::unique_ptr<Device> open(const CardFacts& card, bool probe_only) const;

  const quern_host& host_;
  std::mutex opening_;
  std::shared_ptr<const Driver> driver_;
  std::vector<CardFacts> cards_;
};

/// Runs products of known result on one card; empty, or what was wrong.
std::string self_test(Gpu& gpu);

}  // namespace quern::cuda

QUERN_PLUGIN_HANDLES_WITH_QUEUES(quern::cuda::Backend);
