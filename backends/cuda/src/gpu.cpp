// See gpu.hpp.
#include "gpu.hpp"

#include "error.hpp"

#include <cstdio>
#include <cstring>

namespace quern::cuda {

std::vector<CardFacts> list_cards(const Driver& driver) {
  int count = 0;
  const Result counted = driver.cuDeviceGetCount(&count);
  if (counted != constant::no_device) driver.check(counted, "counting the GPUs");
  std::vector<CardFacts> cards;
  for (int i = 0; i < count; ++i) {
    CardFacts card;
    card.ordinal = i;
    driver.check(driver.cuDeviceGet(&card.handle, i), "naming a GPU");
    char name[256] = {};
    driver.check(driver.cuDeviceGetName(name, sizeof name, card.handle), "naming a GPU");
    card.name = name;
    const auto attribute = [&](int key) {
      int value = 0;
      driver.check(driver.cuDeviceGetAttribute(&value, key, card.handle), "describing a GPU");
      return value;
    };
    card.major = attribute(constant::attribute_major);
    card.minor = attribute(constant::attribute_minor);
    card.multiprocessors = attribute(constant::attribute_multiprocessors);
    card.shared_limit = attribute(constant::attribute_shared_optin);
    card.reserves_addresses = attribute(constant::attribute_addresses) != 0;
    card.integrated = attribute(constant::attribute_integrated) != 0;
    char address[32];
    std::snprintf(address, sizeof address, "%04x:%02x:%02x.0", static_cast<unsigned>(attribute(constant::attribute_pci_domain)),
                  static_cast<unsigned>(attribute(constant::attribute_pci_bus)),
                  static_cast<unsigned>(attribute(constant::attribute_pci_device)));
    card.pci_address = address;
    driver.check(driver.cuDeviceGetUuid_v2(&card.uuid, card.handle), "describing a GPU");
    std::size_t memory = 0;
    driver.check(driver.cuDeviceTotalMem_v2(&memory, card.handle), "describing a GPU");
    card.memory = memory;
    cards.push_back(std::move(card));
  }
  return cards;
}

Gpu::Gpu(std::shared_ptr<const Driver> driver, const CardFacts& facts, const KernelOrigin& origin,
         std::function<void(const std::string&)> warn)
    : driver_(std::move(driver)), facts_(facts), warn_(std::move(warn)), blas_wanted_(origin.library) {
  driver_->check(driver_->cuDevicePrimaryCtxRetain(&context_, facts_.handle), "making a context on the GPU");
  try {
    const Current current(*driver_, context_);
    if (facts_.reserves_addresses && origin.pool) pool_ = std::make_unique<Pool>(*driver_, facts_.handle, facts_.memory);
    kernels_ = std::make_unique<Kernels>(driver_, origin);
    slots_ = std::make_unique<Slots>(*driver_);
    mirrors_ = std::make_unique<Mirrors>(*driver_);
    shadows_ = std::make_unique<Shadows>(*this);
    staging_ = std::make_unique<Staging>(*driver_, context_, origin.threads,
                                         [this](const std::string& text) { warn_(concat(facts_.name, ": ", text)); });
  } catch (...) {
    close();
    throw;
  }
}

Gpu::~Gpu() { close(); }

void Gpu::close() noexcept {
  if (driver_->cuCtxPushCurrent_v2(context_) == constant::success) {
    blas_.reset();
    shadows_.reset();
    staging_.reset();
    kernels_.reset();
    mirrors_.reset();
    slots_.reset();
    pool_.reset();
    Context ignored = nullptr;
    driver_->cuCtxPopCurrent_v2(&ignored);
  }
  driver_->cuDevicePrimaryCtxRelease_v2(facts_.handle);
}

std::uint64_t Gpu::budget() const {
  std::size_t free = 0, total = 0;
  driver_->check(driver_->cuMemGetInfo_v2(&free, &total), "asking for free memory");
  const Pool::Statistics idle = pool();
  return std::min<std::uint64_t>(limit_, used_ + free + (idle.mapped - idle.taken));
}

Blas* Gpu::blas() {
  if (!blas_tried_ && blas_wanted_) {
    std::string reason;
    blas_ = Blas::open(reason);
  }
  blas_tried_ = true;
  return blas_.get();
}

DevicePointer Gpu::allocate(std::uint64_t bytes, const char* what, bool for_shadow) {
  const std::uint64_t before = used_.fetch_add(bytes);
  DevicePointer memory = 0;
  const bool allowed = bytes <= limit_ && before <= limit_ - bytes;
  Result result = constant::out_of_memory;
  if (allowed && pool_ == nullptr) result = driver_->cuMemAlloc_v2(&memory, std::max<std::uint64_t>(bytes, 1));
  if (allowed && pool_ != nullptr) {
    try {
      memory = pool_->take(bytes, what);
    } catch (...) {
      used_ -= bytes;
      throw;
    }
    if (memory != 0) result = constant::success;
  }
  if (result == constant::success) {
    ++allocations_;
    return memory;
  }
  used_ -= bytes;
  if (result == constant::out_of_memory && !for_shadow && shadows_ != nullptr && shadows_->give_up()) return allocate(bytes, what);
  if (result != constant::out_of_memory) driver_->check(result, what);
  const std::uint64_t most = budget();
  Failure failure(QUERN_OUT_OF_MEMORY,
                  concat("cuda: no memory for ", what, ": ", bytes, " bytes asked for, ", most > before ? most - before : 0, " available"));
  failure.requested = bytes;
  failure.available = most > before ? most - before : 0;
  failure.heap = 0;
  throw failure;
}

void Gpu::release(DevicePointer memory, std::uint64_t bytes) noexcept {
  if (pool_ != nullptr) pool_->give(memory, bytes);
  else driver_->cuMemFree_v2(memory);
  used_ -= bytes;
}

void Gpu::trim(std::uint32_t level) noexcept {
  if (level > 0) {
    shadows_->give_up();
    staging_->give_back();
  }
  if (pool_ != nullptr) pool_->trim();
}

}  // namespace quern::cuda
