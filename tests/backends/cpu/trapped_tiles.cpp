// Runs the very instructions of AMX's kernels on a processor without AMX: each is an illegal one there, whose signal's handler reads what it
// asks for, does it by the emulation and goes on behind it. So a test runs the objects that the plugin is linked from.
#include "emulated_tiles.hpp"

#include <signal.h>
#include <ucontext.h>

#include <cstdlib>

namespace quern::cpu::avx512_amx {
namespace {

/// One instruction with the prefix C4 (three bytes), as all of AMX's are.
struct Instruction {
  const std::uint8_t* at;
  greg_t* registers;

  /// The register of this number in the order of instructions' fields.
  std::int64_t value(int number) const noexcept {
    constexpr int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[places[number]];
  }
  bool extends(int bit) const noexcept { return (at[1] >> bit & 1) == 0; }  // R, X and B are stored inverted
  int prefix() const noexcept { return at[2] & 3; }                         // none, 66, F3, F2
  int opcode() const noexcept { return at[3]; }
  int mode() const noexcept { return at[4] >> 6; }
  int first() const noexcept { return (at[4] >> 3 & 7) | (extends(7) ? 8 : 0); }
  int second() const noexcept { return (at[4] & 7) | (extends(5) ? 8 : 0); }
  int third() const noexcept { return ~(at[2] >> 3) & 15; }

  /// Of a memory operand: the address without its index, and the index times its factor.
  struct Memory {
    std::int64_t address, stride;
    int length;  // of the whole instruction
  };
  Memory memory() const noexcept {
    Memory m{0, 0, 5};
    bool has_base = true;
    int base = second();
    if ((at[4] & 7) == 4) {
      const std::uint8_t scaled = at[5];
      ++m.length;
      const int index = (scaled >> 3 & 7) | (extends(6) ? 8 : 0);
      if (index != 4) m.stride = value(index) << (scaled >> 6);
      base = (scaled & 7) | (extends(5) ? 8 : 0);
      has_base = (scaled & 7) != 5 || mode() != 0;
    }
    if (has_base) m.address = value(base);
    if (mode() == 1) m.address += static_cast<std::int8_t>(at[m.length++]);
    if (mode() == 2 || !has_base) {
      std::int32_t offset;
      std::memcpy(&offset, at + m.length, 4);
      m.address += offset;
      m.length += 4;
    }
    return m;
  }

  /// Does what it asks; its length, or 0 if it is none of those that the kernels have.
  int run(EmulatedTiles& tiles) const noexcept {
    if (at[0] != 0xc4 || (at[1] & 31) != 2) return 0;
    if (opcode() == 0x5e && mode() == 3 && (prefix() == 2 || prefix() == 3)) {
      if (prefix() == 2) tiles.multiply<std::uint8_t>(first(), second(), third());
      else tiles.multiply<std::int8_t>(first(), second(), third());
      return 5;
    }
    if (opcode() == 0x49 && mode() == 3) {
      if (prefix() == 3) tiles.zero(first());
      else tiles.release();
      return prefix() == 3 || at[4] == 0xc0 ? 5 : 0;
    }
    if ((opcode() != 0x49 && opcode() != 0x4b) || mode() == 3 || (mode() == 0 && (at[4] & 7) == 5)) return 0;
    const Memory m = memory();
    if (opcode() == 0x49) tiles.configure(*reinterpret_cast<const TileShapes*>(m.address + m.stride));
    else if (prefix() == 3) tiles.load(first(), reinterpret_cast<const void*>(m.address), m.stride);
    else if (prefix() == 2) tiles.store(first(), reinterpret_cast<void*>(m.address), m.stride);
    else return 0;
    return m.length;
  }
};

void handle(int, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const int length = Instruction{reinterpret_cast<const std::uint8_t*>(registers[REG_RIP]), registers}.run(emulated_tiles);
  if (length == 0) std::abort();
  registers[REG_RIP] += length;
}

[[maybe_unused]] const bool installed = [] {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGILL, &action, nullptr) == 0;
}();

}  // namespace
}  // namespace quern::cpu::avx512_amx
