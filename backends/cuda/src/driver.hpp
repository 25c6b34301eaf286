// The CUDA driver (libcuda.so.1), opened at run time: the functions that this plugin calls, with declarations of its own.
//
// Declarations follow the driver API's manual; each symbol is the versioned name that libcuda exports (cuMemAlloc_v2, ...), all of
// them present since CUDA 12.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace quern::cuda {

using DevicePointer = unsigned long long;
using Result = int;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using CapturedGraph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

struct Uuid {
  unsigned char bytes[16];
};

struct LaunchAttribute {  // CUlaunchAttribute: an id, padding to 8 bytes, a union of 64 bytes
  int id;
  int pad;
  union {
    char bytes[64];
    int programmatic_serialization;
    struct {
      unsigned x, y, z;
    } cluster;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

using MemoryHandle = unsigned long long;
struct MemoryLocation {  // CUmemLocation
  int type, id;
};
struct AllocationProperties {  // CUmemAllocationProp
  int type, handle_types;
  MemoryLocation location;
  void* windows;
  unsigned char flags[8];
};
static_assert(sizeof(AllocationProperties) == 32);
struct AccessDescription {  // CUmemAccessDesc
  MemoryLocation location;
  int flags;
};

struct LaunchConfig {  // CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

namespace constant {
constexpr Result success = 0, out_of_memory = 2, device_unavailable = 46, no_device = 100, no_binary = 209, system_not_ready = 802,
                 not_ready = 600, driver_mismatch = 803, unknown = 999;
constexpr int attribute_major = 75, attribute_minor = 76, attribute_multiprocessors = 16, attribute_pci_bus = 33, attribute_pci_device = 34,
              attribute_pci_domain = 50, attribute_integrated = 18, attribute_shared_optin = 97, attribute_addresses = 102;
constexpr int launch_cluster = 4, launch_programmatic_serialization = 6;
constexpr unsigned stream_non_blocking = 1, host_mapped = 2, event_no_timing = 2;
constexpr int capture_thread_local = 1;
constexpr int function_fixed_shared = 1, function_max_dynamic_shared = 8;
constexpr int allocation_pinned = 1, location_device = 1, access_read_write = 3, granularity_minimum = 0;
}  // namespace constant

/// Name, return type Result, arguments. One line a function: the table below, and the loading of it, are made from this list.
#define QUERN_CUDA_FUNCTIONS(F) \
  F(cuInit, (unsigned)) \
  F(cuDriverGetVersion, (int*)) \
  F(cuGetErrorName, (Result, const char**)) \
  F(cuGetErrorString, (Result, const char**)) \
  F(cuDeviceGetCount, (int*)) \
  F(cuDeviceGet, (int*, int)) \
  F(cuDeviceGetName, (char*, int, int)) \
  F(cuDeviceGetUuid_v2, (Uuid*, int)) \
  F(cuDeviceTotalMem_v2, (std::size_t*, int)) \
  F(cuDeviceGetAttribute, (int*, int, int)) \
  F(cuDevicePrimaryCtxRetain, (Context*, int)) \
  F(cuDevicePrimaryCtxRelease_v2, (int)) \
  F(cuCtxPushCurrent_v2, (Context)) \
  F(cuCtxPopCurrent_v2, (Context*)) \
  F(cuCtxSynchronize, ()) \
  F(cuModuleLoadData, (Module*, const void*)) \
  F(cuModuleUnload, (Module)) \
  F(cuModuleGetFunction, (Function*, Module, const char*)) \
  F(cuFuncGetAttribute, (int*, int, Function)) \
  F(cuFuncSetAttribute, (Function, int, int)) \
  F(cuMemGetInfo_v2, (std::size_t*, std::size_t*)) \
  F(cuMemAlloc_v2, (DevicePointer*, std::size_t)) \
  F(cuMemFree_v2, (DevicePointer)) \
  F(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int)) \
  F(cuMemAddressReserve, (DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long)) \
  F(cuMemAddressFree, (DevicePointer, std::size_t)) \
  F(cuMemCreate, (MemoryHandle*, std::size_t, const AllocationProperties*, unsigned long long)) \
  F(cuMemRelease, (MemoryHandle)) \
  F(cuMemMap, (DevicePointer, std::size_t, std::size_t, MemoryHandle, unsigned long long)) \
  F(cuMemUnmap, (DevicePointer, std::size_t)) \
  F(cuMemSetAccess, (DevicePointer, std::size_t, const AccessDescription*, std::size_t)) \
  F(cuMemHostAlloc, (void**, std::size_t, unsigned)) \
  F(cuMemFreeHost, (void*)) \
  F(cuMemHostGetDevicePointer_v2, (DevicePointer*, void*, unsigned)) \
  F(cuMemcpyHtoDAsync_v2, (DevicePointer, const void*, std::size_t, Stream)) \
  F(cuMemcpyDtoHAsync_v2, (void*, DevicePointer, std::size_t, Stream)) \
  F(cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, std::size_t, Stream)) \
  F(cuMemsetD32Async, (DevicePointer, unsigned, std::size_t, Stream)) \
  F(cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, Stream)) \
  F(cuStreamCreate, (Stream*, unsigned)) \
  F(cuStreamDestroy_v2, (Stream)) \
  F(cuStreamSynchronize, (Stream)) \
  F(cuStreamBeginCapture_v2, (Stream, int)) \
  F(cuStreamEndCapture, (Stream, CapturedGraph*)) \
  F(cuEventCreate, (Event*, unsigned)) \
  F(cuEventRecord, (Event, Stream)) \
  F(cuEventSynchronize, (Event)) \
  F(cuEventQuery, (Event)) \
  F(cuEventDestroy_v2, (Event)) \
  F(cuGraphInstantiateWithFlags, (GraphExec*, CapturedGraph, unsigned long long)) \
  F(cuGraphLaunch, (GraphExec, Stream)) \
  F(cuGraphExecDestroy, (GraphExec)) \
  F(cuGraphDestroy, (CapturedGraph)) \
  F(cuOccupancyMaxActiveClusters, (int*, Function, const LaunchConfig*)) \
  F(cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))

class Driver {
 public:
  /// Opens the library and starts it. Throws Failure (DRIVER_MISSING, DRIVER_TOO_OLD) with what is there and what is needed.
  static std::shared_ptr<const Driver> open(const char* library);

  /// Throws Failure with the driver's words if `result` is not success. Device loss is sticky.
  void check(Result result, const char* what) const;
  /// "12.8"
  std::string version() const;
  int version_number() const noexcept { return version_; }  // 12080

#define QUERN_CUDA_MEMBER(name, arguments) Result(*name) arguments = nullptr;
  QUERN_CUDA_FUNCTIONS(QUERN_CUDA_MEMBER)
#undef QUERN_CUDA_MEMBER

 private:
  int version_ = 0;
};

/// Makes a context current for one scope, and restores the caller's.
class Current {
 public:
  Current(const Driver& driver, Context context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
};

inline constexpr int least_driver = 12000;  // CUDA 12.0: launch attributes in graphs, all symbols above
inline constexpr const char* least_driver_text = "12.0 (driver 525)";

}  // namespace quern::cuda
