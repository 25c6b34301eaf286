// Unicode normalisation forms.
//
// utf8proc gives the tables, the decomposition of a single character and the composition. The canonical
// ordering is our own: utf8proc's exchanges neighbours, which takes quadratic time on a long run of combining
// marks.
#include "nfc.hpp"

#include "package_sets.hpp"
#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

namespace quern::tokenizer {
namespace {

constexpr std::size_t max_decomposition = 32;  // the longest has 18

utf8proc_option_t options_of(NormalForm form) noexcept {
  const int compatible = form.compatible ? UTF8PROC_COMPAT : 0;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | compatible | (form.composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
}

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto is_mark = [](utf8proc_int32_t code) { return combining_class(code) != 0; };
  auto at = codes.begin();
  while ((at = std::find_if(at, codes.end(), is_mark)) != codes.end()) {
    const auto run_end = std::find_if_not(at, codes.end(), is_mark);
    std::stable_sort(at, run_end, [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
    at = run_end;
  }
}

void append_ordered(NormalForm form, std::vector<utf8proc_int32_t>& codes, std::string& out) {
  if (codes.empty()) return;
  order_marks(codes);
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options_of(form));
  if (length < 0) throw Error(QUERN_INTERNAL, concat("utf8proc: ", utf8proc_errmsg(length)));
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(static_cast<char32_t>(codes[i]), out);
  codes.clear();
}

void append_decomposed(NormalForm form, char32_t code, std::vector<utf8proc_int32_t>& codes) {
  if (is_in(newer_compositions, code)) {
    codes.push_back(static_cast<utf8proc_int32_t>(code));
    return;
  }
  utf8proc_int32_t parts[max_decomposition];
  int boundary = 0;
  const utf8proc_ssize_t length =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, max_decomposition, options_of(form), &boundary);
  if (length < 0 || static_cast<std::size_t>(length) > max_decomposition)
    throw Error(QUERN_INTERNAL, concat("utf8proc: no decomposition of U+", std::hex, std::uint32_t{code}));
  codes.insert(codes.end(), parts, parts + length);
}

}  // namespace

bool is_trivially_normal(NormalForm form, std::string_view text) noexcept {
  // U+0300 is CC 80: every character below it has a lead byte below 0xCC.
  const unsigned first_changed = form.composed && !form.compatible ? 0xCC : 0x80;
  return std::ranges::none_of(text, [&](char c) { return static_cast<unsigned char>(c) >= first_changed; });
}

std::string normalise(NormalForm form, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> codes;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    if (c.valid) {
      append_decomposed(form, c.code, codes);
    } else {
      append_ordered(form, codes, out);
      out += text[at];
    }
    at += c.length;
  }
  append_ordered(form, codes, out);
  return out;
}

// No character below U+0300 composes with one in front of it, so the text may be cut there and changed part by part. Of a part that
// changes, the equal bytes at both ends keep their places, and what lies between comes from its start.
std::string normalise(NormalForm form, std::string_view text, std::vector<std::size_t>& origins) {
  std::string out;
  out.reserve(text.size());
  origins.clear();
  origins.reserve(text.size());
  const auto add_part = [&](std::size_t begin, std::string_view part) {
    const std::string changed = is_trivially_normal(form, part) ? std::string(part) : normalise(form, part);
    const auto equal = std::ranges::mismatch(part, changed);
    const auto from_left = static_cast<std::size_t>(equal.in1 - part.begin());
    const std::size_t shorter = std::min(part.size(), changed.size());
    std::size_t from_right = 0;
    while (from_right < shorter - from_left && part[part.size() - 1 - from_right] == changed[changed.size() - 1 - from_right]) ++from_right;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const std::size_t left = changed.size() - i;
      origins.push_back(begin + (i < from_left ? i : left <= from_right ? part.size() - left : from_left));
    }
    out += changed;
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    if (at > begin && (!c.valid || c.code < 0x300)) {
      add_part(begin, text.substr(begin, at - begin));
      begin = at;
    }
    at += c.length;
  }
  if (begin < text.size()) add_part(begin, text.substr(begin));
  return out;
}

}  // namespace quern::tokenizer
