// Random numbers of a run, by counter: each is a function of the seed and of what it is for, so that nothing has to be kept to resume.
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011). The key is the seed (low word, high word), the counter is (index, step, salt, purpose).
// The ops dropout and random_uniform draw with purpose 0 (plugin-api/OPS.md).
#pragma once

#include <array>
#include <cstdint>

namespace quern::training {

/// The last word of the counter. No two uses share one.
enum class Purpose : std::uint32_t { op = 0, order = 1, initial = 2, split = 3 };

using PhiloxWords = std::array<std::uint32_t, 4>;

/// Four words of 32 bits. Equal on every machine.
PhiloxWords philox(std::uint64_t seed, std::uint32_t index, std::uint32_t step, std::uint32_t salt, Purpose purpose) noexcept;

/// (word + 0.5) / 2^32 rounded to f32, as the ops draw it: above 0, and 1 at most.
constexpr float uniform(std::uint32_t word) noexcept { return static_cast<float>((word + 0.5) / 4294967296.0); }

}  // namespace quern::training
