// Cases of packed layouts for tests: sets that this processor runs, random weights and activations, products.
//
// Compiled with QUERN_EMULATED_TILES there is one set, AMX's, whose instructions are done in plain C++ (emulated_tiles.hpp); without, it is
// there where the processor and its system have it.
#pragma once

#include "formats.hpp"
#include "half.hpp"
#include "packed/packed.hpp"
#include "view.hpp"

#include "quern/quern_formats.h"
#include "quern/sdk/blocks.hpp"

#ifdef QUERN_EMULATED_TILES
#include "packed/avx512_amx/tiles.hpp"
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace quern::cpu::packed_case {

struct Set {
  const char* name;
  const PackedSet* set;
};
inline std::vector<Set> runnable_sets() {
  Processor processor = detect_processor();
  std::vector<Set> sets;
  allow_amx(processor);
  if (processor.best >= Isa::amx) sets.push_back({"avx512_amx", &packed_set_avx512_amx()});
#ifdef QUERN_EMULATED_TILES
  return sets;
#endif
  if (processor.best >= Isa::avx2) sets.push_back({"avx2", &packed_set_avx2()});
  if (processor.vnni) sets.push_back({"avx512_vnni", processor.bf16 ? &packed_set_avx512_bf16() : &packed_set_avx512_vnni()});
  return sets;
}
struct Case {
  const char* set_name;
  const PackedSet* set;
  const PackedLayout* layout;
};
inline std::vector<Case> runnable_layouts() {
  std::vector<Case> cases;
  for (const Set& s : runnable_sets())
    for (const PackedLayout& layout : s.set->layouts) cases.push_back({s.name, s.set, &layout});
  return cases;
}

/// 64-byte aligned memory.
template <typename T>
class Aligned {
 public:
  explicit Aligned(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T) + 64) {}
  T* data() { return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(bytes_.data()) + 63) / 64 * 64); }

 private:
  std::vector<std::byte> bytes_;
};

// ---------------------------------------------------------------------------------------------- canonical rows

/// Which f16 scales a test's blocks get.
enum class Scales { similar, extreme };

inline std::uint16_t random_scale(Scales kind, std::mt19937& random) {
  if (kind == Scales::similar)
    return float_to_half((0.5f + static_cast<float>(random() % 512) / 512.0f) * (random() % 4 == 0 ? -0.01f : 0.01f));
  constexpr std::uint16_t odd[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
  return random() % 2 != 0 ? odd[random() % std::size(odd)]
                           : static_cast<std::uint16_t>((random() & 0x83ffu) | ((1u + random() % 30u) << 10));
}

/// Whether a block begins with a word: an f32, or its upper 24 bits and a zero point.
inline bool has_word(quern_dtype format) {
  const quern_format* f = sdk::find_format(format);
  if (f == nullptr) return false;
  const auto* fields = static_cast<const quern_format_field*>(f->fields.data);
  return fields[0].role == QUERN_ROLE_SUPER_SCALE && fields[0].stored == QUERN_STORED_F32;
}

/// Byte offsets of the f16 scales in a block.
inline std::vector<int> scale_offsets(quern_dtype format) {
  switch (format) {
    case QUERN_Q4_0:
    case QUERN_Q5_0:
    case QUERN_Q8_0: return {0};
    case QUERN_Q4_1:
    case QUERN_Q5_1:
    case QUERN_Q4_K:
    case QUERN_Q5_K: return {0, 2};
    case QUERN_Q6_K: return {208};
    default: return {};
  }
}

inline void put(std::byte* to, std::uint16_t value) { std::memcpy(to, &value, 2); }
inline void put(std::byte* to, float value) { std::memcpy(to, &value, 4); }

/// A block's scales become that of the f16 `scale()`, a zero point stays.
template <typename Scale>
void set_scales(quern_dtype format, std::byte* block, const Scale& scale) {
  for (const int at : scale_offsets(format)) put(block + at, scale());
  if (!has_word(format)) return;
  const std::byte zero = block[0];
  put(block, half_to_float(scale()));  // the lower 13 bits are zeros
  if (sdk::find_format(format)->formula == QUERN_FORMULA_SUPER_ZERO) block[0] = zero;
}
/// Where a block's codes may begin: behind its scales, and the sub-scales of a K format; Q6_K has all scales last.
inline std::int64_t codes_at(quern_dtype format) {
  if (format == QUERN_Q4_K || format == QUERN_Q5_K) return 16;
  return format == QUERN_Q6_K ? 0 : has_word(format) ? 4 : scale_offsets(format).back() + 2;
}

/// A byte of codes that stands for no NaN.
inline std::byte finite_code(quern_dtype format, std::byte code) {
  return format == QUERN_F8_128 && (code & std::byte{0x7f}) == std::byte{0x7f} ? code ^ std::byte{1} : code;
}

/// Random codes, every third block of all zeros or all ones, so that the ends of every range occur, -128 in Q8_0 too.
inline void fill_block(quern_dtype format, Scales kind, std::mt19937& random, std::byte* block) {
  const std::int64_t bytes = unit_bytes(format);
  const auto choice = static_cast<unsigned>(random() % 9);
  for (std::int64_t i = 0; i < bytes; ++i)
    block[i] = choice == 0   ? std::byte{0}
               : choice == 1 ? std::byte{0xff}
               : choice == 2 ? std::byte{0x80}
                             : static_cast<std::byte>(random());
  for (std::int64_t i = 0; i < bytes; ++i) block[i] = finite_code(format, block[i]);
  set_scales(format, block, [&] { return random_scale(kind, random); });
}

inline float random_float(Scales kind, std::mt19937& random) {
  if (kind == Scales::similar) return static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.001f;
  constexpr float odd[] = {0.0f, -0.0f, 1e-40f, -6e-8f, 60000.0f, 1.0f};
  return odd[random() % std::size(odd)];
}

struct Weights {
  quern_dtype format;
  std::int64_t rows, k, stride;
  std::vector<std::byte> bytes;

  std::vector<float> decoded() const {
    std::vector<float> out(static_cast<std::size_t>(rows * k));
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::byte* row = bytes.data() + r * stride;
      float* to = out.data() + r * k;
      if (is_block(format)) {
        decode_blocks(format, row, k, to);
        continue;
      }
      for (std::int64_t i = 0; i < k; ++i) {
        std::uint16_t half = 0;
        if (format == QUERN_F32) std::memcpy(to + i, row + i * 4, 4);
        else std::memcpy(&half, row + i * 2, 2);
        if (format == QUERN_F16) to[i] = half_to_float(half);
        if (format == QUERN_BF16) to[i] = bfloat_to_float(half);
      }
    }
    return out;
  }
};

inline Weights random_weights(quern_dtype format, std::int64_t rows, std::int64_t k, Scales kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::int64_t units = k / unit_elements(format), unit = unit_bytes(format);
  Weights w{format, rows, k, units * unit + 6, {}};  // the stride is longer than a row
  w.bytes.resize(static_cast<std::size_t>(rows * w.stride));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t u = 0; u < units; ++u) {
      std::byte* at = w.bytes.data() + r * w.stride + u * unit;
      if (is_block(format)) fill_block(format, kind, random, at);
      else if (format == QUERN_F32) put(at, random_float(kind, random));
      else put(at, format == QUERN_F16 ? float_to_half(random_float(kind, random)) : float_to_bfloat(random_float(kind, random)));
    }
  return w;
}

struct Panels {
  std::int64_t count, bytes;
  Aligned<std::byte> memory;
};
inline Panels pack(const PackedLayout& layout, const Weights& w) {
  const std::int64_t count = (w.rows + layout.panel_rows - 1) / layout.panel_rows, bytes = layout.panel_bytes(w.k);
  EXPECT_EQ(bytes % 64, 0);
  Panels p{count, bytes, Aligned<std::byte>(count * bytes + 64)};
  std::memset(p.memory.data(), 0xa5, static_cast<std::size_t>(count * bytes + 64));
  for (std::int64_t i = 0; i < count; ++i)
    layout.pack(w.bytes.data() + i * layout.panel_rows * w.stride, w.stride, std::min(layout.panel_rows, w.rows - i * layout.panel_rows),
                w.k, p.memory.data() + i * bytes);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(p.memory.data()[count * bytes + i], std::byte{0xa5}) << "pack wrote behind its panel";
  return p;
}

// ---------------------------------------------------------------------------------------------- activations

inline bool is_float(Activations kind) { return kind == Activations::f32 || kind == Activations::bf16; }

struct Tokens {
  std::int64_t count, k, row_bytes;
  Activations kind;
  Aligned<std::byte> memory;

  /// What the kernel multiplies with, in f64.
  double at(std::int64_t token, std::int64_t i) {
    const std::byte* row = memory.data() + token * row_bytes;
    if (kind == Activations::f32) return reinterpret_cast<const float*>(row)[i];
    if (kind == Activations::bf16) return bfloat_to_float(reinterpret_cast<const std::uint16_t*>(row)[i]);
    const ActivationRow a = activation_row(kind, row, k);
    return static_cast<double>(a.codes[i]) * a.scales[i / (kind == Activations::int8_256 ? 256 : 32)];
  }
};
inline Tokens quantised(const Case& c, const std::vector<float>& x, std::int64_t count, std::int64_t k) {
  const Activations kind = c.layout->activations;
  const std::int64_t bytes = activation_row_bytes(kind, k);
  Tokens t{count, k, bytes, kind, Aligned<std::byte>(count * bytes)};
  if (kind != Activations::f32) c.set->quantise(kind, x.data(), k, count, k, t.memory.data());
  else
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(t.memory.data() + i * bytes, x.data() + i * k, static_cast<std::size_t>(k) * 4);
  return t;
}
inline std::vector<float> random_activations(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

constexpr float untouched = -12345.0f;

/// y = tokens * panels^T, `tokens_a_call` and `panels_a_call` at a time.
inline std::vector<float> multiply(const PackedLayout& layout, Panels& panels, std::int64_t rows, Tokens& tokens,
                                   std::int64_t tokens_a_call, std::int64_t panels_a_call, std::int64_t y_stride) {
  std::vector<float> y(static_cast<std::size_t>(tokens.count * y_stride), untouched);
  Aligned<float> scratch(layout.scratch_floats != nullptr ? layout.scratch_floats(tokens.k) : 0);
  for (std::int64_t p = 0; p < panels.count; p += panels_a_call)
    for (std::int64_t t = 0; t < tokens.count; t += tokens_a_call) {
      const std::int64_t count = std::min(panels_a_call, panels.count - p);
      const PackedPart part{panels.memory.data() + p * panels.bytes,
                            count,
                            std::min(rows - p * layout.panel_rows, count * layout.panel_rows),
                            tokens.k,
                            tokens.memory.data() + t * tokens.row_bytes,
                            std::min(tokens_a_call, tokens.count - t),
                            y.data() + t * y_stride + p * layout.panel_rows,
                            y_stride,
                            scratch.data()};
      layout.multiply(part);
#ifdef QUERN_EMULATED_TILES
      EXPECT_STREQ(avx512_amx::emulated_tiles.misuse, nullptr);
      EXPECT_FALSE(avx512_amx::emulated_tiles.configured) << "tiles are left behind";
#endif
    }
  return y;
}

}  // namespace quern::cpu::packed_case
