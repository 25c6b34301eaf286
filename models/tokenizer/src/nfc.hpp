// Unicode normalisation forms.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

struct NormalForm {
  bool composed = true, compatible = false;  // NFC; NFKC is compatible too, NFD and NFKD are not composed
};

/// `text` in a form. Bytes that are not UTF-8 stay as they are and bound what is composed. Time n log n, also
/// for a text of combining marks alone.
std::string normalise(NormalForm form, std::string_view text);
/// The same; `origins` gets for each byte of it where it comes from in `text`.
std::string normalise(NormalForm form, std::string_view text, std::vector<std::size_t>& origins);

/// True if no character of `text` can be changed by the form, judged by its code alone (all are below U+0300 for form C).
bool is_trivially_normal(NormalForm form, std::string_view text) noexcept;

}  // namespace quern::tokenizer
