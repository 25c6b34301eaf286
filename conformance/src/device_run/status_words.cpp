// See status_words.hpp.
#include "device_run/status_words.hpp"

#include "quern/quern_plan.h"

#include <cstdio>

namespace quern::conformance {

std::string status_words(quern_status status) {
  switch (status) {
#define QUERN_NAMED(name) \
  case QUERN_##name: return #name;
    QUERN_NAMED(OK)
    QUERN_NAMED(INVALID_ARGUMENT)
    QUERN_NAMED(UNSUPPORTED)
    QUERN_NAMED(NOT_FOUND)
    QUERN_NAMED(OUT_OF_MEMORY)
    QUERN_NAMED(HOST_OUT_OF_MEMORY)
    QUERN_NAMED(DEVICE_LOST)
    QUERN_NAMED(TIMEOUT)
    QUERN_NAMED(BUSY)
    QUERN_NAMED(CANCELLED)
    QUERN_NAMED(VERSION)
    QUERN_NAMED(DRIVER_MISSING)
    QUERN_NAMED(DRIVER_TOO_OLD)
    QUERN_NAMED(DEPENDENCY_MISSING)
    QUERN_NAMED(ARCH_NOT_BUILT)
    QUERN_NAMED(PERMISSION)
    QUERN_NAMED(FORKED)
    QUERN_NAMED(IO)
    QUERN_NAMED(INTERNAL)
    QUERN_NAMED(DEPENDENCY_FAILED)
    QUERN_NAMED(BAD_MODEL)
    QUERN_NAMED(CONTEXT_FULL)
    QUERN_NAMED(BACKEND_UNAVAILABLE)
    QUERN_NAMED(DOES_NOT_FIT)
#undef QUERN_NAMED
    default: return "status " + std::to_string(status);
  }
}

std::string status_words(std::initializer_list<quern_status> statuses) {
  std::string text;
  for (const quern_status s : statuses) text += (text.empty() ? "" : " or ") + status_words(s);
  return text;
}

std::string fault_words(std::uint64_t faults) {
  std::string text;
  const auto take = [&](std::uint64_t bit, const char* name) {
    if ((faults & bit) != 0) text += (text.empty() ? "" : " and ") + std::string(name);
    faults &= ~bit;
  };
  take(QUERN_FAULT_INDEX_RANGE, "INDEX_RANGE");
  take(QUERN_FAULT_NON_FINITE, "NON_FINITE");
  take(QUERN_FAULT_EXPERT_ABSENT, "EXPERT_ABSENT");
  if (faults != 0) {
    char bits[24];
    std::snprintf(bits, sizeof bits, "bits 0x%llx", static_cast<unsigned long long>(faults));
    text += (text.empty() ? "" : " and ") + std::string(bits);
  }
  return text.empty() ? "none" : text;
}

}  // namespace quern::conformance
