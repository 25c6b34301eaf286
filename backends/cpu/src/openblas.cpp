// See openblas.hpp.
#include "openblas.hpp"

#include "quern/quern_sanitizer.h"

#include <dlfcn.h>

#include <cstdio>

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
  if (set_threads == nullptr || threads == nullptr || parallel == nullptr || sgemm == nullptr) {
    explain(blas, " lacks cblas_sgemm or its thread control");
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

}  // namespace quern::cpu
