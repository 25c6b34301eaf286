// The calls into plugins that have not returned, for handlers of signals: no lock, no memory, no text for quern_last_error().
#include "quern/loader/plugin_call.hpp"
#include "quern.h"

#include <algorithm>
#include <cstring>

using namespace quern;

namespace {

static_assert(QUERN_FAULT_CRASHED == static_cast<int>(loader::FaultKind::crashed) &&
              QUERN_FAULT_EXITED == static_cast<int>(loader::FaultKind::exited) &&
              QUERN_FAULT_HUNG == static_cast<int>(loader::FaultKind::hung));

}  // namespace

extern "C" {

uint32_t quern_open_calls(uint64_t index, quern_open_call* out) {
  loader::OpenCallInfo found;
  if (out == nullptr || out->struct_size < sizeof out->struct_size || !loader::read_open_call(index, found)) return 0;
  const quern_open_call filled{out->struct_size,
                               found.number,
                               found.target->backend.c_str(),
                               found.target->device.c_str(),
                               found.name,
                               found.target->path.c_str(),
                               found.this_thread ? 1u : 0u,
                               0};
  std::memcpy(out, &filled, static_cast<std::size_t>(std::min<std::uint64_t>(out->struct_size, sizeof filled)));
  return 1;
}

uint32_t quern_keep_fault(const quern_open_call* call, uint32_t fault, int32_t signal) {
  if (call == nullptr || call->struct_size < sizeof(quern_open_call) || fault < QUERN_FAULT_CRASHED || fault > QUERN_FAULT_HUNG) return 0;
  loader::OpenCallInfo found;
  for (std::uint64_t i = 0; loader::read_open_call(i, found); ++i)
    if (found.number == call->number)
      return loader::keep_fault(*found.target, found.name, static_cast<loader::FaultKind>(fault), signal) ? 1 : 0;
  return 0;
}

}  // extern "C"
