// The calls into plugins that have not returned, for handlers of signals: no lock, no memory, no text for quern_last_error(). And what they print.
#include "quern/loader/plugin_call.hpp"
#include "quern.h"

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace quern;

namespace {

static_assert(QUERN_FAULT_CRASHED == static_cast<int>(loader::FaultKind::crashed) &&
              QUERN_FAULT_EXITED == static_cast<int>(loader::FaultKind::exited) &&
              QUERN_FAULT_HUNG == static_cast<int>(loader::FaultKind::hung));

quern_open_call described(const loader::OpenCallInfo& call, std::uint64_t struct_size) noexcept {
  return {struct_size,
          call.number,
          call.target->backend.c_str(),
          call.target->device.c_str(),
          call.name,
          call.target->path.c_str(),
          call.this_thread ? 1u : 0u,
          0};
}

std::atomic<quern_printed_fn> printed{nullptr};

void tell(void* user, const loader::OpenCallInfo& found, const char* text, std::uint64_t bytes) {
  const quern_open_call call = described(found, sizeof call);
  if (const quern_printed_fn told = printed) told(user, &call, text, bytes);
}

}  // namespace

extern "C" {

uint32_t quern_open_calls(uint64_t index, quern_open_call* out) {
  loader::OpenCallInfo found;
  if (out == nullptr || out->struct_size < sizeof out->struct_size || !loader::read_open_call(index, found)) return 0;
  const quern_open_call filled = described(found, out->struct_size);
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

void quern_watch_output(int32_t file, quern_printed_fn told, void* user) {
  const bool on = file >= 0 && told != nullptr;
  if (on) printed = told;
  loader::watch_output(on ? file : -1, tell, user);
}

}  // extern "C"
