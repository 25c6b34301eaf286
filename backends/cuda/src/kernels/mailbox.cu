// Small writes of the host go from the mailbox's page to their places at the start of a run; and small outputs go back.
//
//   deliver  one block an entry, up to the grid; 256 threads; the count is in the page, so that a graph replays unchanged
#include "prelude.cuh"

KERNEL(256) deliver(const __grid_constant__ PatchParams p) {
  wait_for_inputs();
  const u32 count = *at<const u32>(p.count);
  for (u32 e = blockIdx.x; e < count; e += gridDim.x) {
    const Patch patch = at<const Patch>(p.entries)[e];
    const char* from = at<const char>(p.bytes) + patch.offset;
    char* to = at<char>(patch.to);
    if ((patch.to | patch.offset | patch.bytes) % 4 == 0) {
      for (u32 i = threadIdx.x; i < patch.bytes / 4; i += blockDim.x) reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(from)[i];
    } else {
      for (u32 i = threadIdx.x; i < patch.bytes; i += blockDim.x) to[i] = from[i];
    }
  }
}

KERNEL(256) publish(const __grid_constant__ PublishParams p) {
  wait_for_inputs();
  for (int r = 0; r < p.count; ++r)
    for (u32 i = threadIdx.x; i < p.bytes[r] / 4; i += blockDim.x) at<volatile u32>(p.to[r])[i] = at<const u32>(p.from[r])[i];
  __threadfence_system();
}
