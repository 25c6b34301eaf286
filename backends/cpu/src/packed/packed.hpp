// Weights packed once at load, and the kernels that read them: the contract between matmul and packed/<isa>/.
//
// A layout holds panels of `panel_rows` consecutive rows of a weight matrix, whole in k, interleaved as its instruction set
// likes to read them, in the bit width of the format. Decode and prefill read the same panels. Packed bytes hold no pointer; they
// depend on the source, the layout's key and nothing else, so a file may keep them.
//
// Numerics: activations are rounded to int8 (Activations::int8_32, int8_256) or bf16, or stay f32. A dot product of int8 is exact in
// integers within a block; blocks are added to an f32 accumulator in the order of k, one accumulator an output. So an output has
// the same bits for any number of tokens, any batch, any split of panels over threads.
#pragma once

#include "../formats.hpp"
#include "../isa.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace quern::cpu {

/// How a layout wants its activations.
enum class Activations : std::uint8_t {
  f32,       // rows of k floats
  bf16,      // rows of k bf16, rounded to nearest even, and one zero more where k is odd
  int8_32,   // int8 with one f32 scale for 32 values of k
  int8_256,  // int8 with one f32 scale for 256 values of k
};

/// Quantised activations of one token: `codes` (k int8), then one f32 scale a block, then one f32 a 32-block, the
/// sum of its codes times its scale (what mins and offsets of weights multiply). k is a multiple of the block, code = round to
/// nearest even(x / scale), scale = max |x| / 127; a block of zeros has scale 0. Rows are 64-byte aligned and stand
/// activation_row_bytes(kind, k) apart. NaN or infinity in a block makes its scale NaN, so that it is not hidden.
/// Behind them are integers for the kernels of the set that made the row, if it wants any: `starts`, activation_starts(kind, k) of them.
/// Rows of floats are a line longer than they need to be, and those of codes have an odd number of lines: rows a power of two apart would share a few
/// sets of a cache (tiles of 16 rows 56 lines apart, an eighth of them: on an Emerald Rapids 161 multiply-adds a clock of Q4_K, and 170 of rows 57 lines apart).
std::int64_t activation_row_bytes(Activations kind, std::int64_t k) noexcept;
std::int64_t activation_starts(Activations kind, std::int64_t k) noexcept;
struct ActivationRow {
  const std::int8_t* codes;
  const float* scales;
  const float* sums;
  const std::int32_t* starts;
};
ActivationRow activation_row(Activations kind, const std::byte* row, std::int64_t k) noexcept;

/// Part of y = x w^T: all `tokens` against `panel_count` panels.
struct PackedPart {
  const std::byte* panels;  // 64-byte aligned
  std::int64_t panel_count;
  std::int64_t rows;  // real rows in these panels: <= panel_count * panel_rows; what is beyond is not written
  std::int64_t k;
  const std::byte* activations;  // of the layout's kind; floats: 64-byte aligned rows activation_row_bytes apart
  std::int64_t tokens;
  float* y;  // [tokens][rows], y_stride floats apart
  std::int64_t y_stride;
  float* scratch;  // scratch_floats(k) of the calling thread, 64-byte aligned
};

/// One format on one instruction set.
struct PackedLayout {
  quern_dtype format;
  Isa isa;
  const char* key;  // "q4_k.16x4.v1": changes whenever the bytes do
  Activations activations;
  std::int64_t panel_rows;  // 8 or 16
  std::int64_t k_multiple;  // what k must be a multiple of: 32 or 256; 1 for floats
  /// A multiple of 64.
  std::int64_t (*panel_bytes)(std::int64_t k) noexcept;
  /// Packs `rows` <= panel_rows canonical rows, `stride` bytes apart, into one panel; missing rows are zeros.
  void (*pack)(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept;
  /// One row of a panel as f32: bit for bit what the canonical block decodes to. For get_rows on a shared table.
  void (*unpack_row)(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept;
  void (*multiply)(const PackedPart& part) noexcept;
  std::int64_t (*scratch_floats)(std::int64_t k) noexcept;  // null: none
};

/// The block formats with packed kernels, as QUERN_EACH_FORMAT has all. One without them is multiplied as its blocks lie.
#define QUERN_CPU_PACKED_FORMATS(row, with) \
  row(Q4_0, q4_0, with) row(Q4_1, q4_1, with) row(Q5_0, q5_0, with) row(Q5_1, q5_1, with) row(Q8_0, q8_0, with) row(Q4_K, q4_k, with) \
      row(Q5_K, q5_k, with) row(Q6_K, q6_k, with) row(Q4_Z32, q4_z32, with) row(Q4_Z64, q4_z64, with) row(Q4_Z128, q4_z128, with) \
          row(Q8_Z32, q8_z32, with) row(Q8_Z128, q8_z128, with) row(Q8_128, q8_128, with)
/// Those whose codes become floats: AMX has no kernels of them.
#define QUERN_CPU_CODED_FORMATS(row, with) row(F8_128, f8_128, with) row(NF4_64, nf4_64, with) row(FP4_64, fp4_64, with)

/// The packed kernels of one instruction set. Empty where the build or the CPU lacks it.
struct PackedSet {
  std::span<const PackedLayout> layouts;
  /// Rounds `rows` rows of k floats, `stride` floats apart, to `kind`: to one that a layout of the set asks for, and not f32.
  void (*quantise)(Activations kind, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* out) noexcept;
};
const PackedSet& packed_set_avx2() noexcept;         // AVX2, FMA, F16C
const PackedSet& packed_set_avx512_vnni() noexcept;  // AVX-512 F, BW, DQ, VL, VNNI
const PackedSet& packed_set_avx512_bf16() noexcept;  // those and BF16: two layouts more
const PackedSet& packed_set_avx512_amx() noexcept;   // those of avx512_vnni that take int8, with the same bits by AMX's tiles

}  // namespace quern::cpu
