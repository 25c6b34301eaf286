// See uncached.hpp.
#include "uncached.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace quern::vulkan {
namespace {

constexpr std::size_t line = 64;

#ifdef __x86_64__
/// Streaming loads: of memory that is written combined they bring a line as a whole into a buffer of its own.
__attribute__((target("sse4.1"))) void read_lines(std::byte* to, const std::byte* from, std::size_t lines) noexcept {
  for (std::size_t l = 0; l < lines; ++l)
    for (std::size_t i = 0; i < line; i += sizeof(__m128i)) {
      auto* part = reinterpret_cast<__m128i*>(const_cast<std::byte*>(from + l * line + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + l * line + i), _mm_stream_load_si128(part));
    }
}
#endif

}  // namespace

void read_uncached(void* to, const std::byte* from, std::size_t bytes) noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.1") == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  _mm_mfence();  // what an earlier streaming load left behind is not read again
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const std::size_t before = reinterpret_cast<std::uintptr_t>(from) % line;
    if (before == 0 && bytes >= line) {
      const std::size_t lines = bytes / line;
      read_lines(out, from, lines);
      out += lines * line, from += lines * line, bytes -= lines * line;
      continue;
    }
    std::byte whole[line];
    read_lines(whole, from - before, 1);
    const std::size_t part = std::min(line - before, bytes);
    std::memcpy(out, whole + before, part);
    out += part, from += part, bytes -= part;
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace quern::vulkan
