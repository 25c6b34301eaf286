// Fuzzes the reader of GGUF adapters, for a base of architecture llama and one of qwen3. A refusal is an Error(QUERN_BAD_MODEL or
// QUERN_UNSUPPORTED); anything else that leaves the reader is a bug. An adapter that is read is whole, and fits the base or is refused.
#include "quern/models/peft.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace peft = quern::peft;
  for (const peft::BaseShape& base : {peft::BaseShape{"llama", 1, 2, 1, 2, 4, 8}, peft::BaseShape{"qwen3", 1, 2, 1, 4, 4, 8}}) {
    try {
      const auto file = quern::gguf::File::from_memory(std::as_bytes(std::span(data, size)), "memory");
      const peft::Adapter adapter = peft::read_gguf(file, base);
      for (const auto& matrix : adapter.matrices)
        if (matrix.a.empty() || matrix.b.empty() || std::isnan(adapter.scale(matrix))) std::abort();
      peft::check_fits(adapter, base);
    } catch (const quern::Error& error) {
      if (error.code() != QUERN_BAD_MODEL && error.code() != QUERN_UNSUPPORTED) std::abort();
    }
  }
  return 0;
}
