// OpenBLAS, opened at run time in a namespace of its own.
//
// Its number of threads is a global of the library, and the embedder may use the same library with another number. So it is
// opened with dlmopen: this process then holds a second copy of its state, which is set to one thread, while the threads
// of the plugin's pool call it side by side. Immutable once opened, shared by all handles, never closed.
#pragma once

#include <cstdint>

namespace quern::cpu {

struct OpenBlas {
  /// cblas_sgemm, or null.
  void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                int ldb, float beta, float* c, int ldc) = nullptr;
  /// Its own store of working memory, of which each call of sgemm holds a block. A block is mapped when it is first needed and stays.
  void* (*take_block)(int) = nullptr;
  void (*give_block)(void*) = nullptr;
  char reason[512] = "";  // why it is null; no string, so that a host without memory has one too
};

/// Opens the library on the first call (about 0.1 s). Never throws; a failure is remembered.
const OpenBlas& openblas() noexcept;

/// Has the library map working memory for as many calls of sgemm at once, so that no run has to [C12]. For prepare. Handles of one process that
/// run side by side with more threads in all than any of them has alone may still map some.
void reserve_openblas(std::uint32_t calls) noexcept;

}  // namespace quern::cpu
