// A session as bytes: tokens, keys and values of all sequences. Equal tokens, computed alike, give equal bytes: nothing else is in them.
//
// All numbers are little-endian. A head: "QRNS", u32 version, u64 model fingerprint, u32 kv dtype, u32 page size, u32 layers, u32 sequences,
// u64 bytes of a key page, u64 bytes of a value page. For each sequence: u64 tokens, the tokens as i32, then for each layer the keys and then
// the values, page by page as [kv heads][rows][size]. A page has as many rows as tokens lie in it. At the end: u64 FNV-1a of all before.
//
// Version 1 had whole pages, with what was in memory behind the rows of the last one; it is refused by its number.
// Hostile input: everything is checked against the size before anything is changed.
#pragma once

#include "engine.hpp"

#include <vector>

namespace quern::runtime {

std::uint64_t saved_size(const Engine& engine);
std::vector<std::byte> save(const Engine& engine);
/// Throws Error(QUERN_BAD_MODEL), Error(QUERN_CONTEXT_FULL) or Error(QUERN_INVALID_ARGUMENT), the engine unchanged; what a device throws while
/// it is written, after which no sequence holds anything.
/// `name` opens every message.
void restore(Engine& engine, std::span<const std::byte> bytes, const std::string& name);

}  // namespace quern::runtime
