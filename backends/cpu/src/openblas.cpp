// See openblas.hpp.
#include "openblas.hpp"

#include "quern/quern_sanitizer.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

namespace quern::cpu {
namespace {

constexpr const char* library_name = "libopenblas.so.0";

/// The library's name and what is wrong, cut where the reason has no more room.
void explain(OpenBlas& blas, const char* what, const char* why = "", const char* then = "") noexcept {
  std::snprintf(blas.reason, sizeof blas.reason, "%s%s%s%s", library_name, what, why, then);
}

OpenBlas open_library() noexcept {
  OpenBlas blas;
#if QUERN_SANITIZER != 0
  explain(blas, ": built with a sanitizer, which cannot follow a library in a namespace of its own");
#else
  void* library = dlmopen(LM_ID_NEWLM, library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    explain(blas, " cannot be opened (", why == nullptr ? "no reason given" : why, "); install libopenblas0");
    return blas;
  }
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  const auto sgemm = reinterpret_cast<decltype(OpenBlas::sgemm)>(dlsym(library, "cblas_sgemm"));
  blas.take_block = reinterpret_cast<decltype(OpenBlas::take_block)>(dlsym(library, "blas_memory_alloc"));
  blas.give_block = reinterpret_cast<decltype(OpenBlas::give_block)>(dlsym(library, "blas_memory_free"));
  if (set_threads == nullptr || threads == nullptr || parallel == nullptr || sgemm == nullptr) {
    explain(blas, " lacks cblas_sgemm or its thread control");
  } else if (blas.take_block == nullptr || blas.give_block == nullptr) {
    explain(blas, " lacks blas_memory_alloc or blas_memory_free, without which a run would map memory");
  } else if (parallel() != 1) {  // 0: built without locks; 2: OpenMP, whose threads are not the library's own
    explain(blas, " is not the pthread build, the only one that several threads may call at once; install libopenblas0-pthread");
  } else {
    set_threads(1);
    if (threads() == 1) blas.sgemm = sgemm;
    else explain(blas, " does not run with one thread");
  }
#endif
  return blas;
}

}  // namespace

const OpenBlas& openblas() noexcept {
  static const OpenBlas blas = open_library();
  return blas;
}

void reserve_openblas(std::uint32_t calls) noexcept {
  static std::mutex lock;
  static std::uint32_t reserved = 0;
  const OpenBlas& blas = openblas();
  if (blas.sgemm == nullptr) return;
  const std::lock_guard guard(lock);
  constexpr std::uint32_t most = 50;  // blocks that every build of the library has at least
  void* blocks[most];
  std::uint32_t taken = 0;
  for (const std::uint32_t wanted = std::min(calls, most); reserved < wanted && taken < wanted; ++taken) blocks[taken] = blas.take_block(0);
  reserved = std::max(reserved, taken);
  while (taken > 0) blas.give_block(blocks[--taken]);
}

}  // namespace quern::cpu
