// The objects behind the opaque handles of the ABI. All state of the plugin lies in them; the library has none.
#pragma once

#include "isa.hpp"
#include "plan.hpp"
#include "selection.hpp"
#include "thread_pool.hpp"
#include "weights.hpp"

#include "quern/quern_plugin_api.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <unistd.h>
#include <set>
#include <string>

struct quern_device {
  quern_plugin* plugin = nullptr;
  std::atomic<std::uint32_t> plans{0};
  std::mutex weights_lock;
  const pid_t process = getpid();                                // that made it
  std::vector<std::unique_ptr<quern::cpu::WeightList>> weights;  // that the host has not released
};

struct quern_plugin {
  const quern_host* host = nullptr;
  quern::cpu::Processor processor;
  quern::cpu::KernelPolicy policy;
  std::unique_ptr<quern::cpu::ThreadPool> pool;
  std::atomic<std::uint32_t> devices{0};

  /// A copy of `text` that lives as long as this handle. Throws std::bad_alloc.
  quern_string keep(const std::string& text);

 private:
  std::mutex kept_lock_;
  std::set<std::string> kept_;
};

struct quern_plan {
  quern_device* device = nullptr;
  quern::cpu::Plan plan;
  std::atomic<std::uint32_t> instances{0};
};

struct quern_instance {
  quern_plan* owner = nullptr;
  quern::cpu::Instance instance;
  explicit quern_instance(quern_plan* plan) : owner(plan), instance(plan->plan) {}
};

namespace quern::cpu {

/// Runs a matrix product of known result through each instruction set that the processor has; the text of the first fault, or
/// empty. Used by probe().
std::string self_test(const KernelPolicy& policy, ThreadPool& pool);

/// Products of each format by AMX's tiles against those by AVX-512, on the calling thread, which may use tiles (amx_permission.cpp): the text of the
/// first format whose bits differ, or empty.
std::string compare_tiles();

}  // namespace quern::cpu
