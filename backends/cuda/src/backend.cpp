// See backend.hpp.
#include "backend.hpp"

#include <cstring>

namespace quern::cuda {
namespace {

/// A forced kernel may carry the prefix "cuda:"; one for another backend counts as unset. A name that there is not throws
/// Failure(unknown); with QUERN_UNSUPPORTED a kernel of fused steps passes, which compile looks for.
std::string forced_kernel(std::string_view value, quern_status unknown = QUERN_INVALID_ARGUMENT) {
  if (const std::size_t colon = value.find(':'); colon != std::string_view::npos) {
    if (value.substr(0, colon) != "cuda") return {};
    value.remove_prefix(colon + 1);
  }
  const bool of_a_plan = unknown == QUERN_UNSUPPORTED && value.find(".cuda") != std::string_view::npos;  // looked for when it is compiled
  if (!value.empty() && value != "jit" && value != "plain" && value != "own" && !is_node_kernel(value) && !of_a_plan)
    throw Failure(unknown, concat("force_kernel is 'cuda:", std::string(value),
                                  "'; this plugin has jit (compile all kernels anew), plain (one kernel a node), own (no cuBLASLt) and the "
                                  "kernel names that plan_info gives"));
  return std::string(value);
}

bool runs_alone(const std::string& forced) { return forced == "plain" || is_node_kernel(forced); }

/// What a user may do about a failure of that code, or of that number of the driver's; a command stands in backquotes.
const char* remedy_for(quern_status code, std::int64_t native_code) {
  switch (native_code) {
    case constant::device_unavailable: return "end the program that has the card for itself, which `nvidia-smi` names";
    case constant::driver_mismatch: return "restart the machine, so that the driver that was installed last is loaded: `sudo reboot`";
    case constant::system_not_ready:
    case constant::unknown: return "restart the machine, or see what the driver says: `sudo dmesg`";
    default: break;
  }
  switch (code) {
    case QUERN_DRIVER_MISSING:
      return "install the NVIDIA driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install), or run on "
             "another backend";
    case QUERN_IO: return "remove that file, or take its folder out of LD_LIBRARY_PATH, so that the driver's own libcuda.so.1 is found";
    case QUERN_DRIVER_TOO_OLD: return "install NVIDIA driver 525 or newer";
    case QUERN_ARCH_NOT_BUILT: return "install the CUDA compiler library (pip: nvidia-cuda-nvrtc, Ubuntu: libnvrtc13) and make it findable";
    case QUERN_UNSUPPORTED: return "install quern-backend-vulkan, which serves older cards";
    case QUERN_NOT_FOUND: return "check that the card is visible: `nvidia-smi -L`, and CUDA_VISIBLE_DEVICES";
    case QUERN_OUT_OF_MEMORY: return "end programs that hold the card's memory, which `nvidia-smi` lists";
    case QUERN_INTERNAL: return "update the driver, and prove the card by `quern-conformance run --backend cuda`";
    default: return "";
  }
}

/// Throws where a card is older than the kernels can be.
void check_architecture(const CardFacts& card) {
  if (card.major * 10 + card.minor < 75)
    throw Failure(QUERN_UNSUPPORTED, concat("compute capability ", card.major, ".", card.minor, "; this plugin needs 7.5"));
}

/// What the option `memory` asks for. One without a backend's name goes to all of them, so Vulkan's value counts as unset.
bool plain_memory(std::string_view value) {
  if (value != "" && value != "plain" && value != "staged")
    refuse(concat("memory is '", std::string(value),
                  "'; this plugin has plain (each buffer is taken from the driver), and vulkan has staged"));
  return value == "plain";
}

std::function<void(const std::string&)> warnings(const quern_host& host) {
  return [&host](const std::string& text) {
    if (host.log != nullptr) host.log(host.context, QUERN_LOG_WARN, sdk::text_of("cuda"), sdk::text_of(text));
  };
}

}  // namespace

Memory::Memory(Gpu& gpu, std::uint64_t bytes, const char* what) : gpu_(gpu), bytes_(bytes) {
  const Current current(gpu.driver(), gpu.context());
  address_ = gpu.allocate(bytes, what);
}

Memory::~Memory() {
  if (address_ == 0 || gpu_.driver().cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return;
  gpu_.release(address_, bytes_);
  Context ignored = nullptr;
  gpu_.driver().cuCtxPopCurrent_v2(&ignored);
}

Device::Device(std::shared_ptr<const Driver> driver, const CardFacts& card, const KernelOrigin& origin, const quern_host& host)
    : Gpu(std::move(driver), card, origin, warnings(host)), host_(host) {}

std::shared_ptr<Queue> Device::make_queue() {
  std::unique_ptr<Queue> queue;
  {
    const std::lock_guard lock(idle_mutex_);
    for (std::unique_ptr<Queue>& idle : idle_)
      if (queue == nullptr) queue = std::move(idle);
  }
  if (queue == nullptr) queue = std::make_unique<Queue>(*this);
  return {queue.release(), [this](Queue* ended) { give_back(std::unique_ptr<Queue>(ended)); }};
}

void Device::give_back(std::unique_ptr<Queue> queue) noexcept {
  if (!queue->renew()) return;
  const std::lock_guard lock(idle_mutex_);
  for (std::unique_ptr<Queue>& idle : idle_)
    if (idle == nullptr) {
      idle = std::move(queue);
      return;
    }
}

quern_heap_info Device::heap(std::uint32_t) const {
  const Current current(driver(), context());
  quern_heap_info info = sdk::made<quern_heap_info>();
  info.flags = QUERN_HEAP_DEVICE_LOCAL | QUERN_HEAP_POLLABLE;
  info.total_figure = info.used_figure = QUERN_FIGURE_EXACT;
  info.budget_figure = QUERN_FIGURE_ESTIMATE;  // other processes come and go
  info.total = facts().memory;
  info.budget = budget();
  info.used = used();
  return info;
}

void Device::retire(Memory& memory) {
  mirrors().forget(memory.address(), memory.bytes());
  shadows().forget(memory.address(), memory.bytes());
}

void Device::trim(std::uint32_t level) {
  const Current current(driver(), context());
  if (level > 0) {
    const std::lock_guard lock(idle_mutex_);
    for (std::unique_ptr<Queue>& idle : idle_) idle.reset();
  }
  Gpu::trim(level);
}

void Queue::write(Memory& to, std::uint64_t offset, const void* from, std::uint64_t bytes) {
  const Address target = to.address() + offset;
  gpu().shadows().forget(target, bytes);
  if (mailbox().fits(bytes)) return mailbox().put(target, from, static_cast<std::uint32_t>(bytes));
  const Current current(gpu().driver(), gpu().context());
  deliver();
  if (mailbox().fits(bytes)) return mailbox().put(target, from, static_cast<std::uint32_t>(bytes));
  gpu().mirrors().forget(target, bytes);
  touch();
  if (gpu().staging().upload(target, from, bytes, stream())) return;
  // The driver has read memory that is not pinned when it returns.
  gpu().driver().check(gpu().driver().cuMemcpyHtoDAsync_v2(target, from, bytes, stream()), "upload");
}

const void* Queue::read(void* to, const Memory& from, std::uint64_t offset, std::uint64_t bytes) {
  const Address source = from.address() + offset;
  if (const void* mirrored = gpu().mirrors().find(source, bytes, id(), here()); mirrored != nullptr) return mirrored;
  const Current current(gpu().driver(), gpu().context());
  deliver();
  std::byte* const there = landing(bytes);
  touch();
  // Without such memory the driver waits itself.
  const Result result = gpu().driver().cuMemcpyDtoHAsync_v2(there != nullptr ? there : to, source, bytes, stream());
  if (result != constant::success) landed(there);
  gpu().driver().check(result, "download");
  return there;
}

void Queue::move(Memory& to, std::uint64_t to_offset, const Memory& from, std::uint64_t from_offset, std::uint64_t bytes) {
  const Address target = to.address() + to_offset;
  const Current current(gpu().driver(), gpu().context());
  deliver();
  gpu().mirrors().forget(target, bytes);
  gpu().shadows().forget(target, bytes);
  touch();
  gpu().driver().check(gpu().driver().cuMemcpyDtoDAsync_v2(target, from.address() + from_offset, bytes, stream()), "copy");
}

void Queue::fill(Memory& to, std::uint64_t offset, std::uint32_t pattern, std::uint64_t bytes) {
  const Address target = to.address() + offset;
  const Current current(gpu().driver(), gpu().context());
  deliver();
  gpu().mirrors().forget(target, bytes);
  gpu().shadows().forget(target, bytes);
  touch();
  gpu().driver().check(gpu().driver().cuMemsetD32Async(target, pattern, bytes / 4, stream()), "fill");
}

void Queue::pack(const sdk::PlaneLayout& layout, const Memory& from, std::uint64_t offset, Memory& to, std::uint64_t to_offset) {
  const Current current(gpu().driver(), gpu().context());
  deliver();
  pack_weight(layout, from.address() + offset, to.address() + to_offset, *this);
}

CompiledPlan::CompiledPlan(Device& device, const quern_graph* host_graph, const quern_compile_options& options,
                           std::vector<std::uint32_t>& refused)
    : Plan(host_graph) {
  const std::string forced = forced_kernel(sdk::view(options.force_kernel), QUERN_UNSUPPORTED);
  capture = options.effort > 0;
  const bool alone = runs_alone(forced) || runs_alone(forced_kernel(sdk::host_option(device.host(), "force_kernel")));
  compile(host_graph, options.fusion == 1 && !alone, device.facts(), refused);
  if (forced.find(".cuda") != std::string::npos && !is_node_kernel(forced) && !has_kernel(forced))
    unsupported(concat("force_kernel is 'cuda:", forced, "', which this graph has no use for"));
  launches = static_cast<std::uint32_t>(infos.size());
  // Steps of many rows have other bits with another library of products.
  const std::lock_guard lock(device.order());
  const Current current(device.driver(), device.context());
  add_library(device);
}

Backend::Backend(const quern_host& host) : host_(host) {
  forced_kernel(sdk::host_option(host, "force_kernel"));
  plain_memory(sdk::host_option(host, "memory"));
}

std::uint32_t Backend::device_count() {
  const std::lock_guard lock(opening_);
  if (driver_ == nullptr) {
    auto opened = Driver::open("libcuda.so.1");
    cards_ = list_cards(*opened);
    driver_ = std::move(opened);
  }
  return static_cast<std::uint32_t>(cards_.size());
}

const CardFacts& Backend::card(std::uint32_t index) {
  if (index >= device_count()) throw Failure(QUERN_NOT_FOUND, concat("device ", index, " was asked, there are ", cards_.size()));
  return cards_[index];
}

quern_device_info Backend::device_info(std::uint32_t index, sdk::Texts& texts) {
  const CardFacts& c = card(index);
  quern_device_info info = sdk::made<quern_device_info>();
  info.device_class = c.integrated ? QUERN_DEVICE_INTEGRATED : QUERN_DEVICE_DISCRETE;
  info.vendor_id = 0x10de;
  info.caps = QUERN_CAP_PROBE_NEEDS_CHILD;
  info.name = texts.keep(c.name);
  info.architecture = texts.keep(concat("sm_", c.major, c.minor));
  info.driver_have = texts.keep(concat("CUDA ", driver_->version()));
  info.driver_need = texts.keep(concat("CUDA ", least_driver_text));
  info.pci_address = texts.keep(c.pci_address);
  std::memcpy(info.uuid, c.uuid.bytes, sizeof info.uuid);
  info.max_allocation = c.memory;
  info.heap_count = 1;
  info.numa_node = QUERN_NONE;
  return info;
}

std::unique_ptr<Device> Backend::open(const CardFacts& card, bool probe_only) const {
  check_architecture(card);
  const std::string forced = forced_kernel(sdk::host_option(host_, "force_kernel"));
  KernelOrigin origin;
  origin.major = card.major;
  origin.minor = card.minor;
  origin.shared_limit = card.shared_limit;
  origin.force_jit = forced == "jit";
  origin.probe_only = probe_only;
  origin.pool = !plain_memory(sdk::host_option(host_, "memory"));
  origin.library = forced != "own";
  origin.threads = host_.thread_count;
  origin.cache_directory = std::string(sdk::view(host_.cache_directory));
  return std::make_unique<Device>(driver_, card, origin, host_);
}

void Backend::prove(std::uint32_t index) {
  const CardFacts& c = card(index);
  try {
    const std::unique_ptr<Device> device = open(c, true);
    const Current current(device->driver(), device->context());
    if (const std::string fault = self_test(*device); !fault.empty()) throw Failure(QUERN_INTERNAL, fault);
  } catch (Failure& failure) {
    failure.text = concat(c.name, ": ", failure.text);
    throw;
  }
}

void Backend::explain(const Failure& failure, quern_reason& reason, sdk::Texts& texts) const {
  if (failure.code == QUERN_DRIVER_MISSING) reason.missing = sdk::text_of("libcuda.so.1");
  if (failure.code == QUERN_ARCH_NOT_BUILT || failure.code == QUERN_DEPENDENCY_MISSING) reason.missing = sdk::text_of("libnvrtc.so.13");
  reason.remedy = texts.keep(remedy_for(failure.code, failure.native_code));
}

}  // namespace quern::cuda
