// A text on its way to tokens: what normalizers and pre-tokenizers have made of it so far.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

struct NormalText {
  std::string bytes;
  std::vector<std::size_t> origins;  // of each byte: where it comes from; empty where nobody asks
  bool tracked = false;

  NormalText() = default;
  NormalText(std::string_view text, bool track) : bytes(text), tracked(track) {
    for (std::size_t i = 0; track && i < text.size(); ++i) origins.push_back(i);
  }

  std::size_t origin(std::size_t at) const noexcept { return !tracked ? 0 : at < origins.size() ? origins[at] : end_origin(); }
  std::size_t end_origin() const noexcept { return origins.empty() ? 0 : origins.back() + 1; }

  /// Adds bytes that stand for what lies in `from` at `at`.
  void add(std::string_view text, const NormalText& from, std::size_t at) {
    bytes += text;
    if (tracked) origins.insert(origins.end(), text.size(), from.origin(at));
  }
  /// Adds a part of `from` as it is.
  void copy(const NormalText& from, std::size_t begin, std::size_t end) {
    bytes.append(from.bytes, begin, end - begin);
    if (tracked)
      origins.insert(origins.end(), from.origins.begin() + static_cast<std::ptrdiff_t>(begin),
                     from.origins.begin() + static_cast<std::ptrdiff_t>(end));
  }
  NormalText empty_copy() const {
    NormalText made;
    made.tracked = tracked;
    made.bytes.reserve(bytes.size());
    return made;
  }
};

}  // namespace quern::tokenizer
