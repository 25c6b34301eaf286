// The order of work that all layouts share: few tokens straight from the panels, many through expanded chunks.
//
//   direct   1 .. 4 tokens: a panel at a time, its codes unpacked in registers.
//   tiles    more: blocks of up to 256 tokens against groups of up to 16 panels, chunk of k after chunk. A chunk of two panels is
//            expanded (codes to bytes, scales to the form that the tile kernel reads), 10 to 20 KB that stay in L1 while the tokens
//            pass by, 5 or 6 at a time (10 or 12 sums in registers), and what is read next is asked for. What the tokens hold of a chunk
//            stays in L2 for all panels of the group, and so do the f32 sums, which wait in scratch between chunks.
//   few      5 .. 16 tokens: tiles too, but memory counts: two panels at a time over all of k, and while a chunk is multiplied the next is
//            asked for. That gives 5.5 GB/s a thread at 8 tokens of Q4_0 on Zen 4 where groups of 16 panels give 4.0 (6.2 from L2).
// An Engine supplies both kernels. Each keeps an f32 sum an output, in the order of k: `main` of scale x code x activation, and where
// minimums have blocks of their own (mins_apart) another, `mins` of minimum x sum of activations; y = main + mins at the end. So both ways
// give the same bits.
// Sums that wait in memory while the inner loop uses the registers do so in scratch: a vector on the stack is always a compiler's spill
// (scripts/vector_spills.py).
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx2::packed {
namespace {

constexpr int direct_tokens = 4, tile_panels = 2;
constexpr std::int64_t few_tokens = 16, block_tokens = 256, group_panels = 16;

/// Where a tile's sums wait, [C][R][8] each: f32 from chunk to chunk, and integers within 256 k (the K formats).
struct TileSums {
  float *main, *mins;
  std::int32_t* block;
};

/// Running sums of a direct kernel's C tokens: in registers, or in scratch where the products need the registers.
template <int C, bool InMemory = (C > 2)>
class DirectSums {
 public:
  QUERN_AVX2_INLINE explicit DirectSums(float* memory) : memory_(memory) { clear(); }
  QUERN_AVX2_INLINE void clear() {
    for (int c = 0; c < C; ++c) set(c, _mm256_setzero_ps());
  }
  QUERN_AVX2_INLINE __m256 get(int c) const { return InMemory ? _mm256_load_ps(memory_ + 8 * c) : kept_[c]; }
  QUERN_AVX2_INLINE __m256 as_float(int c) const { return _mm256_cvtepi32_ps(_mm256_castps_si256(get(c))); }
  QUERN_AVX2_INLINE void add_product(int c, __m256 a, __m256 b) { set(c, _mm256_fmadd_ps(a, b, get(c))); }
  QUERN_AVX2_INLINE void add_integers(int c, __m256i v) { set(c, _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(get(c)), v))); }
  /// Before and after a step of additions: keeps the compiler from moving the sums to registers over the whole loop.
  QUERN_AVX2_INLINE void settle() const {
    if (InMemory) sums_are_in_memory(memory_);
  }

 private:
  QUERN_AVX2_INLINE void set(int c, __m256 v) {
    if (InMemory) _mm256_store_ps(memory_ + 8 * c, v);
    else kept_[c] = v;
  }
  float* memory_;
  __m256 kept_[InMemory ? 1 : C];
};

/// A direct kernel's part of scratch: where its sums wait, and at the end its outputs ([C][8], in `main`).
struct DirectScratch {
  float *main, *mins, *block, *offset;
};
constexpr std::int64_t direct_floats = 4 * direct_tokens * 8;
QUERN_AVX2_INLINE DirectScratch direct_scratch(float* scratch) {
  return {scratch, scratch + 8 * direct_tokens, scratch + 16 * direct_tokens, scratch + 24 * direct_tokens};
}

/// What a kernel reads of its tokens: the first token's row and how far the rows are apart.
struct Tokens {
  const Byte* codes;
  const float* scales;
  const float* sums;
  std::int64_t row_bytes;
  const std::int32_t* starts;  // of the row, or what the engine made of its codes: start_words a token
  std::int64_t start_words;

  QUERN_AVX2_INLINE const Byte* code(int token, std::int64_t i) const { return codes + token * row_bytes + i; }
  QUERN_AVX2_INLINE __m256 scale(int token, std::int64_t i) const { return _mm256_broadcast_ss(at(scales, token) + i); }
  QUERN_AVX2_INLINE __m256 sum(int token, std::int64_t i) const { return _mm256_broadcast_ss(at(sums, token) + i); }
  QUERN_AVX2_INLINE __m256i start(int token, std::int64_t i) const { return _mm256_set1_epi32(starts[token * start_words + i]); }
  QUERN_AVX2_INLINE Tokens from(std::int64_t token) const {
    const Byte* row = codes + token * row_bytes;
    if (scales == nullptr) return {row, nullptr, nullptr, row_bytes, nullptr, 0};  // f32
    return {row, at(scales, token), at(sums, token), row_bytes, starts + token * start_words, start_words};
  }

 private:
  QUERN_AVX2_INLINE const float* at(const float* p, std::int64_t token) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const Byte*>(p) + token * row_bytes);
  }
};

/// Of its own, so that its constants do not compete with its caller's for registers.
template <class Engine>
[[gnu::noinline]] void copy_codes(const Byte* codes, std::int64_t row_bytes, std::int64_t count, std::int64_t length, std::int32_t* to) {
  for (std::int64_t t = 0; t < count; ++t) Engine::copy_codes(codes + t * row_bytes, length, to + t * Engine::copy_words(length));
}

/// Tokens `first` and on, from element k = i on. An engine that multiplies a copy of the codes (copies) finds that of `length` elements
/// in `copy`, if it is not null; the `starts` are in the rows.
template <class Engine>
QUERN_AVX2_INLINE Tokens tokens_of(const PackedPart& part, std::int64_t first, std::int64_t count, std::int64_t i, std::int64_t length,
                                   float* copy) {
  const std::int64_t bytes = activation_row_bytes(Engine::activations, part.k);
  const std::byte* rows = part.activations + first * bytes;
  if constexpr (Engine::activations == Activations::f32) {
    return {reinterpret_cast<const Byte*>(rows + 4 * i), nullptr, nullptr, bytes, nullptr, 0};
  } else {
    const ActivationRow row = activation_row(Engine::activations, rows, part.k);
    const auto* codes = reinterpret_cast<const Byte*>(row.codes) + i;
    const float *scales = row.scales + i / Engine::scale_block, *sums = row.sums + i / 32;
    if constexpr (Engine::copies)
      if (copy != nullptr) {
        auto* words = reinterpret_cast<std::int32_t*>(copy);
        copy_codes<Engine>(codes, bytes, count, length, words);
        return {codes, scales, sums, bytes, words, Engine::copy_words(length)};
      }
    return {codes, scales, sums, bytes, row.starts + Engine::first_start(part.k) + i / Engine::start_block, bytes / 4};
  }
}

/// An engine may say that fewer tokens are multiplied straight from the panels.
template <class Engine>
constexpr std::int64_t most_direct() {
  if constexpr (requires { Engine::most_direct; }) return Engine::most_direct;
  else return direct_tokens;
}

template <class Engine>
void multiply_direct(const PackedPart& part) {
  const std::int64_t panel_bytes = Engine::panel_bytes(part.k);
  const Tokens tokens = tokens_of<Engine>(part, 0, part.tokens, 0, part.k, nullptr);
  const DirectScratch sums = direct_scratch(part.scratch);
  for (std::int64_t p = 0; p < part.panel_count; ++p) {
    const auto* panel = reinterpret_cast<const Byte*>(part.panels + p * panel_bytes);
    switch (part.tokens) {
      case 1: Engine::template direct<1>(panel, part.k, tokens, sums); break;
      case 2: Engine::template direct<2>(panel, part.k, tokens, sums); break;
      default:
        if constexpr (most_direct<Engine>() > 2) {
          if (part.tokens == 3) Engine::template direct<3>(panel, part.k, tokens, sums);
          else Engine::template direct<4>(panel, part.k, tokens, sums);
        }
    }
    for (std::int64_t t = 0; t < part.tokens; ++t)
      store_rows(part.y + t * part.y_stride + 8 * p, _mm256_load_ps(sums.main + 8 * t), part.rows - 8 * p);
  }
}

template <class Engine, int R>
QUERN_AVX2_INLINE void tile(int count, const Byte* chunk, std::int64_t length, const Tokens& tokens, const TileSums& sums) {
  switch (count) {
    case 1: return Engine::template tile<R, 1>(chunk, length, tokens, sums);
    case 2: return Engine::template tile<R, 2>(chunk, length, tokens, sums);
    case 3: return Engine::template tile<R, 3>(chunk, length, tokens, sums);
    case 4: return Engine::template tile<R, 4>(chunk, length, tokens, sums);
    case 5: return Engine::template tile<R, 5>(chunk, length, tokens, sums);
    default:
      if constexpr (Engine::tile_tokens == 6) Engine::template tile<R, 6>(chunk, length, tokens, sums);
  }
}

/// Bytes of two panels, `stride` apart, that are wanted soon: asked for a share at a time, to the second level.
struct Soon {
  const Byte* at;
  std::int64_t stride, bytes;  // bytes: of each panel

  QUERN_AVX2_INLINE void prefetch_share(std::int64_t part, std::int64_t parts) const {
    for (std::int64_t i = bytes * part / parts / 64 * 64; i < bytes * (part + 1) / parts; i += 64)
      for (int r = 0; r < 2; ++r) _mm_prefetch(reinterpret_cast<const char*>(at + r * stride + i), _MM_HINT_T1);
  }
};

/// A chunk of R panels against a block of tokens.
template <class Engine, int R>
void multiply_chunk(const Byte* panels, std::int64_t k, std::int64_t i, std::int64_t length, const Tokens& tokens, std::int64_t count,
                    Byte* chunk, const TileSums& sums, const Soon& soon) {
  Engine::template expand<R>(panels, k, i, length, chunk);
  // Eight tokens are four and four, not five and three: a small tile loads more for its work.
  const std::int64_t tiles = (count + Engine::tile_tokens - 1) / Engine::tile_tokens;
  for (std::int64_t t = 0, n = 0; n < tiles; ++n) {
    const std::int64_t here = (count - t + tiles - n - 1) / (tiles - n);
    soon.prefetch_share(n, tiles);
    tile<Engine, R>(static_cast<int>(here), chunk, length, tokens.from(t), {sums.main + t * 8 * R, sums.mins + t * 8 * R, sums.block});
    t += here;
  }
}

template <class Engine>
constexpr std::int64_t copy_floats(std::int64_t tokens, std::int64_t k) {
  if constexpr (Engine::copies) return round_up(tokens * Engine::copy_words(k), 16);
  else return 0;
}

/// Where the parts of a tile call's scratch begin, in floats.
template <class Engine>
struct TileScratch {
  static constexpr std::int64_t sums = block_tokens * group_panels * 8;
  static constexpr std::int64_t mins_at = sums, copy_at = mins_at + (Engine::mins_apart ? sums : 0);
  static constexpr std::int64_t chunk_at = copy_at + copy_floats<Engine>(block_tokens, Engine::chunk);
  static constexpr std::int64_t block_at = chunk_at + Engine::chunk_bytes / 4;
  static constexpr std::int64_t total = block_at + tile_panels * Engine::tile_tokens * 8;
};

/// What is read behind two panels' chunk at element k = i of a group: the chunk of the next two, or the next chunk of the first two, or,
/// behind all of k, the panels behind the group, which are most often this thread's next.
template <class Engine>
QUERN_AVX2_INLINE Soon soon_after(const PackedPart& part, std::int64_t p, std::int64_t panels, std::int64_t r, std::int64_t i) {
  r += 2;
  if (r >= panels) r = 0, i += Engine::chunk;
  if (i >= part.k) r = panels, i = 0;
  const std::int64_t panel_bytes = Engine::panel_bytes(part.k), length = least(Engine::chunk, part.k - i);
  return {reinterpret_cast<const Byte*>(part.panels) + (p + r) * panel_bytes + panel_bytes * i / part.k, panel_bytes,
          panel_bytes * length / part.k};
}

/// Up to group_panels panels against up to block_tokens tokens. whole: these tokens over all of k, or null: they are found chunk by chunk.
template <class Engine>
void multiply_group(const PackedPart& part, std::int64_t p, std::int64_t panels, std::int64_t first, std::int64_t count,
                    const Tokens* whole) {
  using At = TileScratch<Engine>;
  float *main = part.scratch, *mins = part.scratch + (Engine::mins_apart ? At::mins_at : 0);
  const std::int64_t panel_bytes = Engine::panel_bytes(part.k);
  const auto* at = reinterpret_cast<const Byte*>(part.panels + p * panel_bytes);
  for (std::int64_t n = 0; n < panels * count * 8; n += 8) {
    _mm256_store_ps(main + n, _mm256_setzero_ps());
    if constexpr (Engine::mins_apart) _mm256_store_ps(mins + n, _mm256_setzero_ps());
  }
  for (std::int64_t i = 0; i < part.k; i += Engine::chunk) {
    const std::int64_t length = least(Engine::chunk, part.k - i);
    Tokens tokens;
    if (whole == nullptr) {
      tokens = tokens_of<Engine>(part, first, count, i, length, part.scratch + At::copy_at);
    } else {
      tokens = tokens_of<Engine>(part, first, count, i, length, nullptr);
      if constexpr (Engine::copies) tokens.starts = whole->starts + Engine::copy_words(i), tokens.start_words = whole->start_words;
    }
    auto* chunk = reinterpret_cast<Byte*>(part.scratch + At::chunk_at);
    for (std::int64_t r = 0; r < panels; r += 2) {
      const std::int64_t n = r * count * 8;
      const TileSums sums{main + n, mins + n, reinterpret_cast<std::int32_t*>(part.scratch + At::block_at)};
      const Soon soon = soon_after<Engine>(part, p, panels, r, i);
      if (r + 2 <= panels) multiply_chunk<Engine, 2>(at + r * panel_bytes, part.k, i, length, tokens, count, chunk, sums, soon);
      else multiply_chunk<Engine, 1>(at + r * panel_bytes, part.k, i, length, tokens, count, chunk, sums, soon);
    }
  }
  for (std::int64_t r = 0; r < panels; r += 2) {
    const std::int64_t here = least(2, panels - r), n = r * count * 8;  // a last panel alone stands by itself
    for (std::int64_t t = 0; t < count; ++t)
      for (std::int64_t o = 0; o < here; ++o) {
        const std::int64_t row = 8 * (p + r + o), sum = n + (t * here + o) * 8;
        if (row >= part.rows) break;
        __m256 y = _mm256_load_ps(main + sum);
        if constexpr (Engine::mins_apart) y = _mm256_add_ps(y, _mm256_load_ps(mins + sum));
        store_rows(part.y + (first + t) * part.y_stride + row, y, part.rows - row);
      }
  }
}

template <class Engine>
void multiply_tiles(const PackedPart& part) {
  // Even blocks of whole tiles (of 5 and of 6), or what there is.
  const std::int64_t blocks = (part.tokens + block_tokens - 1) / block_tokens;
  const std::int64_t even = least(block_tokens, round_up((part.tokens + blocks - 1) / blocks, 30));
  for (std::int64_t t = 0; t < part.tokens; t += even)
    for (std::int64_t p = 0; p < part.panel_count; p += group_panels)
      multiply_group<Engine>(part, p, least(group_panels, part.panel_count - p), t, least(even, part.tokens - t), nullptr);
}

template <class Engine>
void multiply_few(const PackedPart& part) {
  const Tokens tokens = tokens_of<Engine>(part, 0, part.tokens, 0, part.k, part.scratch + TileScratch<Engine>::total);
  for (std::int64_t p = 0; p < part.panel_count; p += 2)
    multiply_group<Engine>(part, p, least(2, part.panel_count - p), 0, part.tokens, &tokens);
}

template <class Engine>
void multiply(const PackedPart& part) noexcept {
  if (part.tokens <= 0 || part.panel_count <= 0) return;
  if (part.tokens <= most_direct<Engine>()) multiply_direct<Engine>(part);
  else if (part.tokens <= few_tokens) multiply_few<Engine>(part);
  else multiply_tiles<Engine>(part);
}

template <class Engine>
std::int64_t scratch_floats(std::int64_t k) noexcept {
  static_assert(TileScratch<Engine>::total >= direct_floats);
  return TileScratch<Engine>::total + copy_floats<Engine>(few_tokens, k);
}

}  // namespace
}  // namespace quern::cpu::avx2::packed
