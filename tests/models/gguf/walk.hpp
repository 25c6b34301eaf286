// Touches all that an open file offers, so that a wrong view or extent is a crash under a sanitizer.
#pragma once

#include "quern/models/gguf.hpp"

#include <cstdint>

namespace quern::test {

/// A sum over every byte of every key, value and tensor, asked for through the getters that fit; the first
/// key and an absent one are asked for through all of them.
std::uint64_t walk(const gguf::File& file);

}  // namespace quern::test
