// Writes the caller's error struct: only inside its size, text cut at a code point.
#include "error.hpp"

#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <cstring>

namespace quern::cpu {

quern_status report(quern_error* error, quern_status code, const char* text, std::uint32_t node, std::uint32_t slot) noexcept {
  if (error == nullptr || error->header.struct_size < QUERN_MIN_SIZE_quern_error) return code;
  error->code = code;
  error->domain = QUERN_DOMAIN_QUERN;
  error->native_code = 0;
  error->flags = code == QUERN_BUSY ? QUERN_ERROR_RETRYABLE : 0;
  error->requested = error->available = 0;
  error->heap = QUERN_NONE;
  error->node = node;
  error->slot = slot;
  error->rule = 0;
  error->text_size = std::strlen(text);
  if (error->text != nullptr && error->text_capacity > 0) {
    std::uint64_t size = std::min(error->text_size, error->text_capacity);
    if (size < error->text_size)
      while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80u) --size;
    std::memcpy(error->text, text, size);
    if (size < error->text_capacity) error->text[size] = '\0';
  }
  return code;
}

}  // namespace quern::cpu
