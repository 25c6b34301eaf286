// malloc and its kin for a whole program: libquern, the plugin and libstdc++ take theirs from here. Allocations are counted, and one of them
// returns null.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::test::allocations {

inline constexpr int most_frames = 40;
inline constexpr std::uint64_t never = ~std::uint64_t{0};

struct Stack {
  std::uintptr_t frames[most_frames];
  int depth = 0;
};

extern std::atomic<bool> counting;              // off: allocations pass and are not counted
extern std::atomic<std::int64_t> live;          // bytes, always
extern std::uint64_t main_count;                // allocations of the main thread since counting began
extern std::atomic<std::uint64_t> other_count;  // of all other threads
extern std::uint64_t fail_main, fail_other;
extern std::vector<Stack>* recorded;        // by main_count, where asked for
extern std::vector<Stack>* recorded_other;  // by other_count
extern Stack failed;                        // where the failure was
extern bool has_failed;
extern constinit thread_local bool is_main;

}  // namespace quern::test::allocations
