// Version, status names, the last error of a thread, and library-made text.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/quern_abi.h"

namespace quern::c_api {
namespace {

// A fixed array: remembering that memory ran out must not need memory.
thread_local char last_error[2048];

}  // namespace

void remember_error(std::string_view text) noexcept {
  printable_into(text, last_error, sizeof(last_error));  // one line, whatever it quotes
}

quern_text* make_text(std::string text) { return new quern_text{std::move(text)}; }

}  // namespace quern::c_api

extern "C" {

const char* quern_version(void) { return QUERN_LIBRARY_VERSION; }
const char* quern_build(void) { return QUERN_LIBRARY_BUILD; }
uint32_t quern_plugin_abi_epoch(void) { return QUERN_ABI_EPOCH; }
uint32_t quern_plugin_abi_minor(void) { return QUERN_ABI_MINOR; }
const char* quern_last_error(void) { return quern::c_api::last_error; }

const char* quern_status_name(quern_status status) {
  switch (status) {
#define QUERN_NAME(code) \
  case code: return #code;
    QUERN_NAME(QUERN_OK)
    QUERN_NAME(QUERN_INVALID_ARGUMENT)
    QUERN_NAME(QUERN_UNSUPPORTED)
    QUERN_NAME(QUERN_NOT_FOUND)
    QUERN_NAME(QUERN_OUT_OF_MEMORY)
    QUERN_NAME(QUERN_HOST_OUT_OF_MEMORY)
    QUERN_NAME(QUERN_DEVICE_LOST)
    QUERN_NAME(QUERN_TIMEOUT)
    QUERN_NAME(QUERN_BUSY)
    QUERN_NAME(QUERN_CANCELLED)
    QUERN_NAME(QUERN_VERSION)
    QUERN_NAME(QUERN_DRIVER_MISSING)
    QUERN_NAME(QUERN_DRIVER_TOO_OLD)
    QUERN_NAME(QUERN_DEPENDENCY_MISSING)
    QUERN_NAME(QUERN_ARCH_NOT_BUILT)
    QUERN_NAME(QUERN_PERMISSION)
    QUERN_NAME(QUERN_FORKED)
    QUERN_NAME(QUERN_IO)
    QUERN_NAME(QUERN_DEPENDENCY_FAILED)
    QUERN_NAME(QUERN_BAD_MODEL)
    QUERN_NAME(QUERN_CONTEXT_FULL)
    QUERN_NAME(QUERN_BACKEND_UNAVAILABLE)
    QUERN_NAME(QUERN_DOES_NOT_FIT)
#undef QUERN_NAME
    default: return "QUERN_INTERNAL";
  }
}

const char* quern_text_data(const quern_text* text) { return text == nullptr ? "" : text->text.c_str(); }
uint64_t quern_text_size(const quern_text* text) { return text == nullptr ? 0 : text->text.size(); }
void quern_text_release(quern_text* text) { delete text; }

}  // extern "C"
