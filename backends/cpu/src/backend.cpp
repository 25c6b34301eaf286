// See backend.hpp.
#include "backend.hpp"

#include <system_error>
#include <vector>

namespace quern::cpu {
namespace {

constexpr std::uint32_t max_threads = 1024;

/// AMX's tiles, where the processor and its system have them. Tiles that multiply wrongly are left with the reason, and if `demanded` refused by the
/// probe.
void take_amx(Processor& processor, bool demanded) {
  Processor with = processor;
  allow_amx(with);
  std::string fault = demanded || with.best != Isa::amx ? std::string() : compare_tiles();
  if (fault.empty()) processor = std::move(with);
  else processor.no_amx = std::move(fault);
}

}  // namespace

Backend::Backend(const quern_host& host) : processor_(detect_processor()) {
  if (host.thread_count > max_threads)
    throw sdk::Failure(QUERN_INVALID_ARGUMENT, concat("thread_count is ", host.thread_count, "; it is 1 to ", max_threads));
  policy_.thread_count = host.thread_count;
  const std::string deterministic = sdk::host_option(host, "deterministic"), force = sdk::host_option(host, "force_kernel");
  policy_.deterministic = !deterministic.empty() && deterministic != "0";
  if (family_allowed("amx", forced_name(force))) take_amx(processor_, demands_amx(forced_name(force)));
  policy_.best = processor_.best;
  policy_.no_amx = processor_.no_amx;
  policy_.force = check_forced_kernel(force, processor_, QUERN_INVALID_ARGUMENT);
  std::vector<std::uint32_t> processors;
  for (const std::uint32_t processor : sdk::List<std::uint32_t>(host.affinity, "host.affinity"))
    if (processors.size() < max_threads) processors.push_back(processor);
  try {
    pool_ = std::make_unique<ThreadPool>(host.thread_count, processors);
  } catch (const std::system_error& e) {
    throw sdk::Failure(QUERN_HOST_OUT_OF_MEMORY,
                       concat("cannot start ", host.thread_count - 1, " threads: ", e.what(), "; set fewer threads"));
  }
}

quern_device_info Backend::device_info(std::uint32_t, sdk::Texts& texts) const {
  quern_device_info info = sdk::made<quern_device_info>();
  info.device_class = QUERN_DEVICE_CPU;
  info.caps = QUERN_CAP_HOST_MEMORY;
  info.name = texts.keep(processor_.name);
  info.architecture = texts.keep(processor_.architecture);
  info.numa_node = QUERN_NONE;
  return info;
}

std::unique_ptr<Device> Backend::open(std::uint32_t) { return std::make_unique<Device>(processor_, policy_, *pool_); }

void Backend::prove(std::uint32_t index) {
  if (const std::string fault = self_test(*open(index)); !fault.empty()) throw sdk::Failure(QUERN_INTERNAL, fault);
}

void Backend::explain(const sdk::Failure&, quern_reason& reason, sdk::Texts&) const {
  reason.remedy = sdk::text_of("set force_kernel=portable");
}

}  // namespace quern::cpu
