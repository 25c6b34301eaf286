// How much stack the calling thread has left: for what recurses, and for calls that go deep into drivers.
//
// A host may call from a thread of 128 KiB. What recurses asks here at each level, beside its own limit of depth, and ends with a
// sentence where running on would end the process.
#pragma once

#include "quern/quern_sanitizer.h"

#include <cstddef>

namespace quern {

/// Bytes between the caller's frame and the end of its thread's stack. SIZE_MAX where that is not known: on a stack that the program made
/// itself (coroutines, signal handlers), or where the system does not answer. Allocates nothing that it keeps; never throws.
std::size_t stack_left() noexcept;

/// Frames under a sanitizer are this many times larger (measured: the deepest template takes 2.6 times the stack under ASan).
inline constexpr std::size_t frame_scale = QUERN_SANITIZER != 0 ? 4 : 1;

/// What a level of a recursion leaves for all that does not recurse below it, and for the error that it throws.
inline constexpr std::size_t stack_for_a_level = frame_scale * (std::size_t{32} << 10);

/// What a call into a driver must find: nobody bounds what compilers in drivers take, and this is what the smallest usual thread has.
inline constexpr std::size_t stack_for_a_driver = frame_scale * (std::size_t{384} << 10);

/// Throws Error(QUERN_HOST_OUT_OF_MEMORY) naming `what` where fewer than `needed` bytes are left.
void require_stack(std::size_t needed, const char* what);

}  // namespace quern
