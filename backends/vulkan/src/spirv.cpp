// See spirv.hpp. A module is a header of 5 words, then instructions: the word count in the upper half of the first word, the opcode in
// the lower. Capabilities come first, execution modes directly behind the entry points.
#include "spirv.hpp"

#include <cstring>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t header_words = 5, op_entry_point = 15, op_execution_mode = 16, op_capability = 17;
constexpr std::uint32_t capability_denorm_preserve = 4464, capability_specials_preserve = 4466;
constexpr std::uint32_t mode_denorm_preserve = 4459, mode_specials_preserve = 4461;

}  // namespace

std::vector<std::uint32_t> with_float_controls(const unsigned char* module, std::size_t bytes, bool keep_denormals, bool keep_specials) {
  std::vector<std::uint32_t> words(bytes / 4);
  std::memcpy(words.data(), module, words.size() * 4);
  std::vector<std::uint32_t> out(words.begin(), words.begin() + header_words);
  const auto capability = [&](bool wanted, std::uint32_t which) {
    if (wanted) out.insert(out.end(), {2u << 16 | op_capability, which});
  };
  capability(keep_denormals, capability_denorm_preserve);
  capability(keep_specials, capability_specials_preserve);
  for (std::size_t at = header_words; at < words.size();) {
    const std::size_t length = words[at] >> 16;
    if (length == 0 || at + length > words.size()) return words;
    out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.begin() + static_cast<std::ptrdiff_t>(at + length));
    if ((words[at] & 0xffffu) == op_entry_point) {
      const auto mode = [&](bool wanted, std::uint32_t which) {
        if (wanted) out.insert(out.end(), {4u << 16 | op_execution_mode, words[at + 2], which, 32u});
      };
      mode(keep_denormals, mode_denorm_preserve);
      mode(keep_specials, mode_specials_preserve);
    }
    at += length;
  }
  return out;
}

}  // namespace quern::vulkan
