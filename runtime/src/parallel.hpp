// Independent pieces of work on a few threads: for loading, where a device's own threads are not at hand.
#pragma once

#include <cstdint>
#include <functional>

namespace quern::runtime {

/// Calls work(i) once for each i below `count`, on up to `threads` threads, the caller's among them. Where threads cannot be started,
/// those that were do it all. Where `work` throws, no further piece is begun, and what the lowest such i threw is thrown here after the others have
/// ended: the same whatever the number of threads.
void in_parallel(std::uint32_t threads, std::uint64_t count, const std::function<void(std::uint64_t)>& work);

}  // namespace quern::runtime
