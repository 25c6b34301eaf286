#include "exit_code.hpp"

namespace quern::cli {

ExitCode exit_code_of(quern_status status) noexcept {
  switch (status) {
    case QUERN_OK: return exit_ok;
    case QUERN_INVALID_ARGUMENT: return exit_usage;
    case QUERN_BACKEND_UNAVAILABLE:
    case QUERN_DEVICE_LOST:
    case QUERN_TIMEOUT:
    case QUERN_VERSION:
    case QUERN_DRIVER_MISSING:
    case QUERN_DRIVER_TOO_OLD:
    case QUERN_DEPENDENCY_MISSING:
    case QUERN_ARCH_NOT_BUILT: return exit_unavailable;
    case QUERN_UNSUPPORTED:
    case QUERN_NOT_FOUND:
    case QUERN_PERMISSION:
    case QUERN_IO:
    case QUERN_BAD_MODEL:
    case QUERN_BUSY:  // another process has it
      return exit_refused;
    case QUERN_OUT_OF_MEMORY:
    case QUERN_HOST_OUT_OF_MEMORY:
    case QUERN_DOES_NOT_FIT: return exit_does_not_fit;
    case QUERN_CONTEXT_FULL: return exit_context;
    default: return exit_bug;
  }
}

}  // namespace quern::cli
