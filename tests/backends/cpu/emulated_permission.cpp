// In place of src/amx_permission.cpp: grants AMX, whose instructions are emulated, wherever there is AVX-512 VNNI.
#include "isa.hpp"

#include <cstdlib>

namespace quern::cpu {

/// QUERN_TEST_NO_AMX: a refusal to give instead.
void allow_amx(Processor& processor) {
  const char* refusal = std::getenv("QUERN_TEST_NO_AMX");
  processor.no_amx = !processor.vnni ? "this processor has no avx512 vnni" : refusal != nullptr ? refusal : "";
  if (!processor.no_amx.empty()) return;
  processor.best = Isa::amx;
  processor.architecture += " amx";
}

}  // namespace quern::cpu
