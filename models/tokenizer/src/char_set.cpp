// Sets of characters as expressions name them.
#include "char_set.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace quern::tokenizer {
namespace {

#include "scripts.inc"

struct Script {
  std::string_view name;
  std::span<const CodeRange> ranges;
};

constexpr Script scripts[] = {
    {"arabic", script_arabic}, {"cyrillic", script_cyrillic}, {"devanagari", script_devanagari},
    {"greek", script_greek},   {"han", script_han},           {"hangul", script_hangul},
    {"hebrew", script_hebrew}, {"hiragana", script_hiragana}, {"katakana", script_katakana},
    {"latin", script_latin},   {"thai", script_thai},
};

// In the order of utf8proc_category_t.
constexpr std::string_view category_names[] = {"cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl", "no", "pc", "pd", "ps",
                                               "pe", "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "cs", "co"};

bool is_surrogate(char32_t code) noexcept { return code >= 0xD800 && code <= 0xDFFF; }

struct CategoryRun {
  char32_t first, last;
  int category;
};

const std::vector<CategoryRun>& category_runs() {
  static const std::vector<CategoryRun> runs = [] {
    std::vector<CategoryRun> made;
    for (char32_t code = 0; code <= CharSet::last_code; ++code) {
      const int category = is_surrogate(code) ? int{UTF8PROC_CATEGORY_CS} : category_of(code);
      if (!made.empty() && made.back().category == category) made.back().last = code;
      else made.push_back({code, code, category});
    }
    return made;
  }();
  return runs;
}

/// Of the categories whose name begins so.
CharSet category_set(std::string_view prefix) {
  std::vector<CodeRange> ranges;
  for (const CategoryRun& run : category_runs())
    if (category_names[static_cast<std::size_t>(run.category)].starts_with(prefix)) ranges.push_back({run.first, run.last});
  return CharSet(std::move(ranges));
}

/// What a character becomes where case is taken away.
std::u32string folded(char32_t code) {
  constexpr std::size_t longest = 16;
  utf8proc_int32_t parts[longest];
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_CASEFOLD);
  const utf8proc_ssize_t length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, longest, options, &boundary);
  if (length < 1 || length > static_cast<utf8proc_ssize_t>(longest)) return std::u32string(1, code);
  return std::u32string(parts, parts + length);
}

/// Of Unicode 16; utf8proc 2.8 has none of them.
std::optional<char32_t> newer_fold(char32_t code) noexcept {
  constexpr std::pair<char32_t, char32_t> single[] = {
      {0x1C89, 0x1C8A}, {0xA7CB, 0x264}, {0xA7CC, 0xA7CD}, {0xA7DA, 0xA7DB}, {0xA7DC, 0x19B}};
  if (code >= 0x10D50 && code <= 0x10D65) return code + 0x20;
  const auto found = std::ranges::find(single, code, &std::pair<char32_t, char32_t>::first);
  return found == std::end(single) ? std::nullopt : std::optional(found->second);
}

/// Characters that case alone tells apart, by what they become, which is several characters for some.
const std::map<std::u32string, std::vector<char32_t>>& folds() {
  static const auto made = [] {
    std::map<std::u32string, std::vector<char32_t>> all;
    for (char32_t code = 0; code <= CharSet::last_code; ++code) {
      if (const auto to = newer_fold(code)) all[std::u32string(1, *to)].push_back(code);
      if (utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->casefold_seqindex != UINT16_MAX) all[folded(code)].push_back(code);
    }
    return all;
  }();
  return made;
}

}  // namespace

bool is_in(std::span<const CodeRange> ranges, char32_t code) noexcept {
  const auto at = std::ranges::lower_bound(ranges, code, {}, &CodeRange::last);
  return at != ranges.end() && code >= at->first;
}

std::u32string lower_case(char32_t code) {
  if (code == 0x130) return U"i\u0307";
  if (const auto newer = newer_fold(code)) return std::u32string(1, *newer);
  return std::u32string(1, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

CharSet::CharSet(std::vector<CodeRange> ranges) : ranges_(std::move(ranges)) {
  std::ranges::sort(ranges_, {}, &CodeRange::first);
  std::size_t kept = 0;
  for (const CodeRange& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    else ranges_[kept++] = range;
  }
  ranges_.resize(kept);
}

CharSet CharSet::operator|(const CharSet& other) const {
  std::vector<CodeRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(both));
}

CharSet CharSet::operator~() const {
  std::vector<CodeRange> rest;
  char32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= last_code) rest.push_back({next, last_code});
  return CharSet(std::move(rest));
}

bool CharSet::stands_for_several() const {
  return std::ranges::any_of(folds(), [&](const auto& fold) {
    return fold.first.size() > 1 && std::ranges::any_of(fold.second, [&](char32_t code) { return holds(code); });
  });
}

CharSet CharSet::without_case() const {
  std::vector<CodeRange> all = ranges_;
  for (const auto& [to, codes] : folds()) {
    if (!(to.size() == 1 && holds(to[0])) && std::ranges::none_of(codes, [&](char32_t code) { return holds(code); })) continue;
    if (to.size() == 1) all.push_back({to[0], to[0]});
    for (const char32_t code : codes) all.push_back({code, code});
  }
  return CharSet(std::move(all));
}

std::optional<CharSet> named_set(std::string_view name) {
  std::string lower;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-') lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "any") return ~CharSet();
  const auto script = std::ranges::find(scripts, lower, &Script::name);
  if (script != std::end(scripts)) return CharSet({script->ranges.begin(), script->ranges.end()});
  const bool is_category = !lower.empty() && lower.size() <= 2 &&
                           std::ranges::any_of(category_names, [&](std::string_view known) { return known.starts_with(lower); });
  return is_category ? std::optional(category_set(lower)) : std::nullopt;
}

CharSet space_set() {
  return CharSet({{0x9, 0xD},
                  {' ', ' '},
                  {0x85, 0x85},
                  {0xA0, 0xA0},
                  {0x1680, 0x1680},
                  {0x2000, 0x200A},
                  {0x2028, 0x2029},
                  {0x202F, 0x202F},
                  {0x205F, 0x205F},
                  {0x3000, 0x3000}});
}

CharSet digit_set() { return category_set("nd"); }

CharSet word_set() {
  const CharSet circled({{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
  return category_set("l") | category_set("m") | category_set("nd") | category_set("nl") | category_set("pc") | circled;
}

CharSet lone_word_set() { return word_set() | CharSet({{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}}); }

CharSet hex_digit_set() { return CharSet({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}); }

bool ends_like_one_character(std::u32string_view text) {
  std::u32string plain;
  for (const char32_t code : text) plain += folded(code);
  return std::ranges::any_of(folds(),
                             [&](const auto& fold) { return fold.first.size() > 1 && std::u32string_view(plain).ends_with(fold.first); });
}

CharTest::CharTest(CharSet set) : set_(std::move(set)), table_(table_codes / 64) {
  for (const CodeRange& range : set_.ranges())
    for (char32_t code = range.first; code <= std::min<char32_t>(range.last, table_codes - 1); ++code)
      table_[code / 64] |= std::uint64_t{1} << code % 64;
}

}  // namespace quern::tokenizer
