// See driver.hpp.
#include "driver.hpp"

#include "error.hpp"

#include <dlfcn.h>

namespace quern::cuda {

namespace {

/// Errors after which the context answers nothing else: illegal addresses and instructions, launch failures, lost devices.
bool is_sticky(Result result) {
  return (result >= 700 && result <= 720 && result != 702 && result != 704 && result != 705) || result == 46 || result == 214;
}

std::string version_text(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

}  // namespace

std::shared_ptr<const Driver> Driver::open(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* words = dlerror();
    const std::string why = words == nullptr ? "no reason given" : words;
    // A file that was found and is no library is named by its path: one that stands before the driver's own, or a damaged one.
    const quern_status code = why.starts_with('/') ? QUERN_IO : QUERN_DRIVER_MISSING;
    throw Failure(code, concat("the driver library ", library, " cannot be opened (", why, ")"), 6);
  }
  auto driver = std::make_shared<Driver>();
  if (auto* version = reinterpret_cast<Result (*)(int*)>(dlsym(handle, "cuDriverGetVersion")); version != nullptr)
    version(&driver->version_);
  if (driver->version_ != 0 && driver->version_ < least_driver) {
    throw Failure(QUERN_DRIVER_TOO_OLD,
                  concat("the driver supports CUDA ", version_text(driver->version_), " and this plugin needs ", least_driver_text), 6);
  }
#define QUERN_CUDA_LOAD(name, arguments) \
  driver->name = reinterpret_cast<Result(*) arguments>(dlsym(handle, #name)); \
  if (driver->name == nullptr) { \
    throw Failure( \
        QUERN_DRIVER_TOO_OLD, \
        concat("the driver (CUDA ", version_text(driver->version_), ") has no " #name ", and this plugin needs ", least_driver_text), 6); \
  }
  QUERN_CUDA_FUNCTIONS(QUERN_CUDA_LOAD)
#undef QUERN_CUDA_LOAD
  if (const Result result = driver->cuInit(0); result != constant::success) {
    if (result == constant::no_device) throw Failure(QUERN_NOT_FOUND, "the driver is installed but sees no NVIDIA GPU", 6);
    driver->check(result, "starting the driver");
  }
  return driver;
}

void Driver::check(Result result, const char* what) const {
  if (result == constant::success) return;
  const char *name = nullptr, *words = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &words);
  Failure failure(result == constant::out_of_memory ? QUERN_OUT_OF_MEMORY
                  : is_sticky(result)               ? QUERN_DEVICE_LOST
                                                    : QUERN_INTERNAL,
                  concat(what, ": ", words == nullptr ? "unknown error" : words, " (", name == nullptr ? "no name" : name, ", ", result,
                         ")"));
  failure.domain = QUERN_DOMAIN_CUDA;
  failure.native_code = result;
  if (failure.code == QUERN_DEVICE_LOST) failure.flags = QUERN_ERROR_STICKY | QUERN_ERROR_DEVICE_LOST;
  throw failure;
}

std::string Driver::version() const { return version_text(version_); }

Current::Current(const Driver& driver, Context context) : driver_(driver) {
  driver.check(driver.cuCtxPushCurrent_v2(context), "taking the GPU's context");
}

Current::~Current() {
  Context ignored = nullptr;
  driver_.cuCtxPopCurrent_v2(&ignored);
}

}  // namespace quern::cuda
