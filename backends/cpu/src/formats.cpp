// See formats.hpp. What a format's blocks mean is in formats/<format>.cpp.
#include "formats.hpp"

#include "formats/codec.hpp"

#include "quern/sdk/blocks.hpp"

#include <iterator>

namespace quern::cpu {
namespace {

#define QUERN_CPU_ONE(FORMAT, format, with) +1
static_assert(QUERN_EACH_FORMAT(QUERN_CPU_ONE, ) == std::size(quern_formats),
              "quern_formats.h: QUERN_EACH_FORMAT and quern_formats differ");
#undef QUERN_CPU_ONE

const BlockCodec& codec_of(quern_dtype dtype) noexcept {
  switch (dtype) {
#define QUERN_CPU_CODEC(FORMAT, format, with) \
  case QUERN_##FORMAT: return format##_codec;
    QUERN_EACH_FORMAT(QUERN_CPU_CODEC, )
#undef QUERN_CPU_CODEC
    default: {
      static constexpr BlockCodec none = {[](const Byte*, int, float* out) noexcept { std::fill_n(out, 32, 0.0f); },
                                          [](const float*, Byte*) noexcept {}};
      return none;  // not reached: dtypes are checked when a plan is compiled
    }
  }
}

}  // namespace

void decode_part(quern_dtype dtype, const std::byte* block, int part, float* out) noexcept {
  codec_of(dtype).decode(reinterpret_cast<const Byte*>(block), part, out);
}

void decode_blocks(quern_dtype dtype, const std::byte* blocks, std::int64_t count, float* out) noexcept {
  const quern_format* format = sdk::find_format(dtype);
  if (format == nullptr) return;  // as above
  const BlockCodec& codec = codec_of(dtype);
  const auto* b = reinterpret_cast<const Byte*>(blocks);
  const std::int64_t parts = format->block_elements / 32;
  for (std::int64_t i = 0; i < count; i += 32) {
    const std::int64_t at = i / 32;
    const Byte* block = b + at / parts * format->block_bytes;
    if (count - i >= 32) {
      codec.decode(block, static_cast<int>(at % parts), out + i);
    } else {
      float last[32];
      codec.decode(block, static_cast<int>(at % parts), last);
      std::copy_n(last, count - i, out + i);
    }
  }
}

void encode_blocks(quern_dtype dtype, const float* in, std::int64_t count, std::byte* blocks) noexcept {
  const quern_format* format = sdk::find_format(dtype);
  if (format == nullptr) return;  // as above
  const BlockCodec& codec = codec_of(dtype);
  auto* b = reinterpret_cast<Byte*>(blocks);
  for (std::int64_t i = 0; i < count; i += format->block_elements, b += format->block_bytes) codec.encode(in + i, b);
}

}  // namespace quern::cpu
