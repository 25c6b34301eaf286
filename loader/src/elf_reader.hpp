// Reads what an ELF shared library says of itself, without loading it.
//
// The file is hostile: every offset is checked in 64-bit arithmetic against the real size, lists are bounded,
// and nothing is mapped, so that a file that shrinks meanwhile is a read error and not a SIGBUS.
#pragma once

#include "verdict.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quern::loader {

/// Copies `size` bytes at `offset` to `to`; false if they are not all there.
using ReadAt = std::function<bool(std::uint64_t offset, void* to, std::uint64_t size)>;

struct ElfNote {
  std::string name;  // without its terminator
  std::uint32_t type = 0;
  std::vector<std::uint8_t> descriptor;
};

struct ElfFacts {
  std::vector<ElfNote> notes;       // at most 64
  std::vector<std::string> needed;  // DT_NEEDED, at most 256
  std::string build_id;             // hex, or empty
};

/// Fills `facts` from a file of `size` bytes. Not ok: code, cause (with `name`, the file's name as users know
/// it) and remedy. `machine` is the e_machine that this process can run.
Verdict read_elf(const std::string& name, const ReadAt& read, std::uint64_t size, std::uint16_t machine, ElfFacts& facts);

/// The e_machine of this build.
std::uint16_t own_machine();

}  // namespace quern::loader
