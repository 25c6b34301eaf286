// The alphabet in which byte-level BPE vocabularies spell bytes: one printable character for each of the 256.
//
// 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves (as Latin-1 codes); the other 68 bytes, in order,
// are U+0100 and up. Source: Radford et al. 2019, the encoder of GPT-2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::tokenizer {

/// The character that stands for `byte`, in UTF-8 (one or two bytes).
std::string_view spell_byte(unsigned char byte) noexcept;

/// Appends the bytes that `text` spells; false, with nothing appended, if a character is not in the alphabet.
bool append_spelled_bytes(std::string_view text, std::string& out);

}  // namespace quern::tokenizer
