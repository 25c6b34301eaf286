// The ELF note that a host reads before it runs any code of this library.
#include "identity.hpp"

#include "quern/quern_device.h"
#include "quern/quern_sanitizer.h"

#include <elf.h>

#include <cstdint>

// Opened at run time, if it is there.
#define QUERN_CPU_DEPENDENCIES "libopenblas.so.0=libopenblas0"

namespace {

constexpr std::uint32_t dependency_bytes = sizeof(QUERN_CPU_DEPENDENCIES) - 1;

// The descriptor starts 4-aligned behind the name, wherever the compiler would like it.
struct __attribute__((packed)) Note {
  Elf64_Nhdr header;
  char name[8];  // "Quern", padded to a multiple of 4
  quern_note body;
  char dependencies[(dependency_bytes + 4) / 4 * 4];
};

// Needs no CPU feature before dispatch: kernels are chosen by CPUID.
__attribute__((section(QUERN_NOTE_SECTION), used, aligned(4)))
const Note note = {{sizeof(QUERN_NOTE_NAME), sizeof(quern_note) + dependency_bytes, QUERN_NOTE_TYPE},
                   QUERN_NOTE_NAME,
                   {QUERN_NOTE_MAGIC, sizeof(quern_note), 1u << QUERN_ABI_EPOCH, QUERN_ABI_MINOR, 0, QUERN_DEVICE_CPU, 0,
                    QUERN_CPU_HEADER_HASH, QUERN_SANITIZER, dependency_bytes, QUERN_CPU_ID, QUERN_CPU_VERSION},
                   QUERN_CPU_DEPENDENCIES};

}  // namespace
