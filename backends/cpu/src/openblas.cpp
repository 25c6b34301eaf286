// See openblas.hpp.
#include "openblas.hpp"

#include "quern/quern_sanitizer.h"

#include <dlfcn.h>

#include <new>

namespace quern::cpu {
namespace {

constexpr const char* library_name = "libopenblas.so.0";

OpenBlas open_library() {
  OpenBlas blas;
#if QUERN_SANITIZER != 0
  blas.reason = "built with a sanitizer, which cannot follow a library in a namespace of its own";
#else
  void* library = dlmopen(LM_ID_NEWLM, library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    blas.reason = std::string(library_name) + " cannot be opened (" + (why == nullptr ? "no reason given" : why) + "); install libopenblas0";
    return blas;
  }
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  const auto sgemm = reinterpret_cast<decltype(OpenBlas::sgemm)>(dlsym(library, "cblas_sgemm"));
  if (set_threads == nullptr || threads == nullptr || parallel == nullptr || sgemm == nullptr) {
    blas.reason = std::string(library_name) + " lacks cblas_sgemm or its thread control";
  } else if (parallel() != 1) {  // 0: built without locks; 2: OpenMP, whose threads are not the library's own
    blas.reason = std::string(library_name) + " is not the pthread build, the only one that several threads may call at once; install libopenblas0-pthread";
  } else {
    set_threads(1);
    if (threads() == 1) blas.sgemm = sgemm;
    else blas.reason = std::string(library_name) + " does not run with one thread";
  }
#endif
  return blas;
}

}  // namespace

const OpenBlas& openblas() noexcept {
  static const OpenBlas blas = []() -> OpenBlas {
    try {
      return open_library();
    } catch (const std::bad_alloc&) {  // of a reason's text
      OpenBlas none;
      none.reason = "no memory";  // short enough to need none
      return none;
    }
  }();
  return blas;
}

}  // namespace quern::cpu
