// libFuzzer target: S0 on any bytes. It may refuse, and nothing else; a text it gives must name the file.
#include "inspect.hpp"

#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::loader;
  const ReadAt read = [data, size](std::uint64_t offset, void* to, std::uint64_t count) {
    if (offset > size || count > size - offset) std::abort();  // the reader promised to check
    std::memcpy(to, data + offset, count);
    return true;
  };
  Inspection found;
  const Verdict verdict = inspect("fuzz.so", read, size, own_facts(true), found);
  if (!verdict.ok() && verdict.cause.find("fuzz.so") == std::string::npos) std::abort();
  return 0;
}
