// In place of src/amx_permission.cpp: grants AMX, whose instructions are emulated, wherever there is AVX-512 VNNI; to be trapped
// (QUERN_TRAPPED_TILES) they must not be there.
#include "isa.hpp"

#include <cpuid.h>

#include <cstdlib>

namespace quern::cpu {

/// QUERN_TEST_NO_AMX: a refusal to give instead.
std::string amx_missing(const Processor& processor) {
  const char* refusal = std::getenv("QUERN_TEST_NO_AMX");
#ifdef QUERN_TRAPPED_TILES
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 1u))
    refusal = "this processor has amx, whose instructions are not illegal";
#endif
  return !processor.vnni ? "this processor has no avx512 vnni" : refusal != nullptr ? refusal : "";
}

void allow_amx(Processor& processor) {
  processor.no_amx = amx_missing(processor);
  if (!processor.no_amx.empty()) return;
  processor.best = Isa::amx;
  processor.architecture += " amx";
}

}  // namespace quern::cpu
