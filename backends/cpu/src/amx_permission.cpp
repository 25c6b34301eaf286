// AMX: CPUID leaves 7 and 29, XCR0, and Linux's permission (arch_prctl, from 5.16 on): a process has to ask before a thread's first tile.
#include "isa.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace quern::cpu {
namespace {

/// Components 17 and 18 of XCR0, with avx512's known to be there: there is an XCR0.
bool system_saves_tiles() noexcept {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3u) == 3u;
}

}  // namespace

std::string amx_missing(const Processor& processor) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & 1u) && (d >> 25 & 1u);
  if (!amx) return "this processor has no amx";
  if (!processor.vnni) return "this processor has no avx512 vnni, which the kernels for amx use besides";
  if (!system_saves_tiles()) return "the operating system does not save amx tiles; Linux does from 5.16 on";
  // Palette 1: 8 tiles of 1 KB, 16 rows of 64 bytes.
  if (__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) == 0 || a >> 16 != 1024 || b != (8u << 16 | 64u) || (c & 0xffffu) != 16)
    return "this processor's amx tiles are not 8 of 16 rows of 64 bytes";
  return {};
}

void allow_amx(Processor& processor) {
  processor.no_amx = amx_missing(processor);
  if (!processor.no_amx.empty()) return;
  constexpr long request_permission = 0x1023,
                 tile_data = 18;  // ARCH_REQ_XCOMP_PERM and the state's number: asm/prctl.h of old systems lacks them
  if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) {
    processor.no_amx =
        errno == ENOSPC
            ? "the operating system refuses amx tiles: a thread of this program has an alternate signal stack too small to save them"
            : "the operating system refuses amx tiles: " + std::generic_category().message(errno);
    return;
  }
  processor.best = Isa::amx;
  processor.architecture += " amx";
}

}  // namespace quern::cpu
