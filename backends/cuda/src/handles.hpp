// What the opaque handles of the ABI are. All state hangs on them, none on the library.
#pragma once

#include "plan.hpp"
#include "weights.hpp"

#include <optional>

struct quern_plugin {
  quern_host host;
  quern::sdk::Process process;
  quern::sdk::Texts texts;
  std::mutex opening;
  std::shared_ptr<const quern::cuda::Driver> driver;
  std::vector<quern::cuda::CardFacts> cards;
  std::atomic<std::uint32_t> devices{0};

  /// Opens the driver at first use and lists the cards. Throws Failure with what is missing.
  const quern::cuda::Driver& open_driver();
  /// Hands on to the host's log what a user should know.
  std::function<void(const std::string&)> warnings();
};

struct quern_device {
  quern_device(quern_plugin& owner, const quern::cuda::CardFacts& card,
               const quern::cuda::KernelOrigin& origin)
      : plugin(owner), gpu(owner.driver, card, origin, owner.warnings()) {}
  quern_plugin& plugin;
  quern::cuda::Gpu gpu;
  std::atomic<std::uint32_t> children{0};
  std::mutex weights_lock;
  std::vector<std::unique_ptr<quern::cuda::WeightList>> weights;
};

struct quern_plan {
  quern_plan(quern_device& owner, const quern_graph* graph) : device(owner), plan(graph) {}
  quern_device& device;
  quern::cuda::Plan plan;
  std::atomic<std::uint32_t> instances{0};
};

struct quern_instance {
  explicit quern_instance(quern_plan& plan) : owner(plan), instance(plan.plan, plan.device.gpu) {}
  quern_plan& owner;
  quern::cuda::Instance instance;
};

namespace quern::cuda {

/// An option of the host, or empty. A forced kernel may carry the prefix "cuda:"; one for another backend counts as unset.
std::string host_option(const quern_host& host, const char* key);
/// A name that there is not throws Failure(unknown); with QUERN_UNSUPPORTED a kernel of fused steps passes, which compile looks for.
std::string forced_kernel(std::string_view value, quern_status unknown = QUERN_INVALID_ARGUMENT);

/// Runs products of known result on one card; empty, or what was wrong. Throws Failure where the card cannot be opened.
std::string self_test(Gpu& gpu);

/// What a user may do about a failure of that code, or of that number of the driver's; a command stands in backquotes.
const char* remedy_for(quern_status code, std::int64_t native_code);

}  // namespace quern::cuda
