// Unicode normalisation form C.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// `text` in form C. Bytes that are not UTF-8 stay as they are and bound what is composed. Time n log n, also
/// for a text of combining marks alone.
std::string normalise_nfc(std::string_view text);
/// The same; `origins` gets for each byte of it where it comes from in `text`.
std::string normalise_nfc(std::string_view text, std::vector<std::size_t>& origins);

/// True if no character of `text` can be changed by form C, judged by its code alone (all are below U+0300).
bool is_trivially_nfc(std::string_view text) noexcept;

}  // namespace quern::tokenizer
