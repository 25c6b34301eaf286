// The plugin's state and what the opaque handles of the ABI are. All of it hangs on the handles, none on the library.
#pragma once

#include "isa.hpp"
#include "plan.hpp"
#include "selection.hpp"
#include "thread_pool.hpp"
#include "weights.hpp"

#include "quern/sdk/handles.hpp"

#include <memory>
#include <string>

namespace quern::cpu {

/// The processors, on which runs of several sessions overlap: the pool gives them turns.
class Device {
 public:
  static constexpr std::uint64_t span_alignment = cpu::span_alignment;

  Device(const Processor& on, const KernelPolicy& under, ThreadPool& with)
      : processor(on), policy(under), pool(with), offers_(policy), packing_(packed_set_for(on, packing_isa(under.force, under.best))) {}
  sdk::NoOrder& order() noexcept { return order_; }
  const sdk::Offers& offers() const noexcept { return offers_; }
  const Packing* packing() const noexcept { return &packing_; }
  void pack(const PackedKey& key, const void* from, void* to) { pack_weight(key, from, to, pool); }

  const Processor& processor;
  const KernelPolicy& policy;
  ThreadPool& pool;

 private:
  const KernelOffers offers_;
  const Packing packing_;
  sdk::NoOrder order_;
};

class Backend : public sdk::BackendDefaults {
 public:
  using Device = cpu::Device;
  using Plan = cpu::Plan;
  using Instance = cpu::Instance;

  /// Refuses a forced kernel that this plugin has not, and more threads than it can start.
  explicit Backend(const quern_host& host);
  std::uint32_t device_count() const noexcept { return 1; }
  quern_device_info device_info(std::uint32_t index, sdk::Texts& texts) const;
  void prove(std::uint32_t index);
  void explain(const sdk::Failure& failure, quern_reason& reason, sdk::Texts& texts) const;
  std::unique_ptr<Device> open(std::uint32_t index);

 private:
  Processor processor_;
  KernelPolicy policy_;
  std::unique_ptr<ThreadPool> pool_;
};

/// Runs a matrix product of known result through each instruction set that the processor has; the text of the first fault, or empty.
std::string self_test(const Device& device);

/// Products of each format by AMX's tiles against those by AVX-512, on the calling thread, which may use tiles (amx_permission.cpp): the text of the
/// first format whose bits differ, or empty.
std::string compare_tiles();

}  // namespace quern::cpu

QUERN_PLUGIN_HANDLES_ON_HOST(quern::cpu::Backend);
