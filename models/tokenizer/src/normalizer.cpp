// What is done to a text before it is cut.
#include "normalizer.hpp"

#include "byte_alphabet.hpp"
#include "package_sets.hpp"
#include "unicode.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace quern::tokenizer {
namespace {

bool is_white(char32_t code) noexcept { return class_of(code) == CharClass::space; }

/// Every character replaced by what `to` adds for it: to(char, out). Bytes that are no UTF-8 stay.
template <typename To>
void map_characters(NormalText& text, const To& to) {
  NormalText out = text.empty_copy();
  std::string made;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const Char c = decode_char(text.bytes, at);
    made.clear();
    if (c.valid) to(c.code, made);
    else made = text.bytes[at];
    out.add(made, text, at);
    at += c.length;
  }
  text = std::move(out);
}

template <typename Drops>
void drop_characters(NormalText& text, const Drops& drops) {
  map_characters(text, [&](char32_t code, std::string& out) {
    if (!drops(code)) append_utf8(code, out);
  });
}

void lower(char32_t code, std::string& out) {
  for (const char32_t one : lower_case(code)) append_utf8(one, out);
}

bool is_han(char32_t code) noexcept {
  constexpr CodeRange han[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                               {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return is_in(han, code);
}

bool is_dropped_by_bert(char32_t code) noexcept {
  constexpr CodeRange kept[] = {{0x9, 0xA}, {0xD, 0xD}, {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};
  if (code == 0xFFFD) return true;
  const int category = category_of(code);
  return (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO) && !is_in(kept, code);
}

bool is_accent(char32_t code) noexcept {
  return code == 0x1CF2 || code == 0x1CF3 || (kind_of(code) == CharKind::mark && !is_in(newer_marks, code));
}

bool is_nonspacing(char32_t code) noexcept {
  return code == 0x1734 || code == 0x1171E || (category_of(code) == UTF8PROC_CATEGORY_MN && !is_in(newer_nonspacing, code));
}

void run_form(NormalForm form, NormalText& text) {
  if (is_trivially_normal(form, text.bytes)) return;
  NormalText out = text.empty_copy();
  if (text.tracked) {
    std::vector<std::size_t> places;
    out.bytes = normalise(form, text.bytes, places);
    for (const std::size_t place : places) out.origins.push_back(text.origin(place));
  } else {
    out.bytes = normalise(form, text.bytes);
  }
  text = std::move(out);
}

}  // namespace

Normalizer::Normalizer(bool form_c) {
  if (form_c) steps_.emplace_back(Form{});
}

Normalizer::Normalizer(const Json* json) {
  for (const StepJson& step : steps_of("normalizer", json, "normalizers")) steps_.push_back(step_of(step));
}

Normalizer::Step Normalizer::step_of(const StepJson& json) {
  const std::string& type = json.type();
  if (type == "NFC") return Form{{true, false}};
  if (type == "NFD") return Form{{false, false}};
  if (type == "NFKC") return Form{{true, true}};
  if (type == "NFKD") return Form{{false, true}};
  if (type == "Lowercase") return Lowercase{};
  if (type == "StripAccents") return StripAccents{};
  if (type == "Strip") return Strip{json.flag("strip_left", true), json.flag("strip_right", true)};
  if (type == "Replace") return Replace{Pattern(json), json.require_text("content")};
  if (type == "Prepend") return Prepend{json.require_text("prepend")};
  if (type == "Nmt") return Nmt{};
  if (type == "ByteLevel") return Bytes{};
  if (type == "BertNormalizer") {
    const bool lowercase = json.flag("lowercase", true);
    return Bert{json.flag("clean_text", true), json.flag("handle_chinese_chars", true), json.flag("strip_accents", lowercase), lowercase};
  }
  if (type == "Precompiled")
    return Precompiled{std::make_shared<const Charsmap>(Charsmap::from_base64(json.require_text("precompiled_charsmap")))};
  json.unsupported("that is not computed here");
}

bool Normalizer::leaves(std::string_view text) const noexcept {
  return std::ranges::all_of(steps_, [&](const Step& step) {
    const Form* const form = std::get_if<Form>(&step);
    return form != nullptr && is_trivially_normal(form->form, text);
  });
}

void Normalizer::apply(NormalText& text) const {
  for (const Step& step : steps_) std::visit([&](const auto& one) { run(one, text); }, step);
}

void Normalizer::run(const Form& step, NormalText& text) { run_form(step.form, text); }
void Normalizer::run(const Lowercase&, NormalText& text) { map_characters(text, lower); }
void Normalizer::run(const StripAccents&, NormalText& text) { drop_characters(text, is_accent); }

void Normalizer::run(const Strip& step, NormalText& text) {
  std::size_t begin = 0, end = text.bytes.size();
  const auto is_white_at = [&](std::size_t at) {
    const Char c = decode_char(text.bytes, at);
    return c.valid && is_white(c.code);
  };
  while (step.left && begin < end && is_white_at(begin)) begin += decode_char(text.bytes, begin).length;
  while (step.right && end > begin && is_white_at(previous_char(text.bytes, end))) end = previous_char(text.bytes, end);
  NormalText out = text.empty_copy();
  out.copy(text, begin, end);
  text = std::move(out);
}

void Normalizer::run(const Replace& step, NormalText& text) {
  NormalText out = text.empty_copy();
  RegexBudget budget(text.bytes.size());
  std::size_t at = 0;
  step.pattern.each_match(text.bytes, budget, [&](TextRange match) {
    out.copy(text, at, match.begin);
    out.add(step.content, text, match.begin);
    at = match.end;
  });
  out.copy(text, at, text.bytes.size());
  text = std::move(out);
}

void Normalizer::run(const Prepend& step, NormalText& text) {
  if (text.bytes.empty()) return;
  NormalText out = text.empty_copy();
  out.add(step.text, text, 0);
  out.copy(text, 0, text.bytes.size());
  text = std::move(out);
}

void Normalizer::run(const Bert& step, NormalText& text) {
  if (step.clean)
    map_characters(text, [](char32_t code, std::string& out) {
      if (!is_dropped_by_bert(code)) append_utf8(is_white(code) ? U' ' : code, out);
    });
  if (step.han)
    map_characters(text, [](char32_t code, std::string& out) {
      const bool han = is_han(code);
      if (han) out += ' ';
      append_utf8(code, out);
      if (han) out += ' ';
    });
  if (step.accents) {
    run_form({.composed = false}, text);
    drop_characters(text, is_nonspacing);
  }
  if (step.lowercase) map_characters(text, lower);
}

// A cluster of characters of fewer than six bytes is looked up as one, then each of its characters.
void Normalizer::run(const Precompiled& step, NormalText& text) {
  NormalText out = text.empty_copy();
  const std::string_view bytes = text.bytes;
  const auto add = [&](std::size_t begin, std::size_t end) {
    const auto entry = step.map->shortest(bytes.substr(begin, end - begin));
    if (entry) out.add(entry->replacement, text, begin);
    return entry.has_value();
  };
  constexpr std::size_t longest_cluster = 5;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    utf8proc_int32_t state = 0, last = -1;
    while (end < bytes.size()) {
      const Char c = decode_char(bytes, end);
      const auto code = static_cast<utf8proc_int32_t>(c.code);
      if (last >= 0 && utf8proc_grapheme_break_stateful(last, code, &state) != 0) break;
      last = code;
      end += c.length;
    }
    if (end - at > longest_cluster || !add(at, end))
      for (std::size_t one = at; one < end;) {
        const std::size_t next = one + decode_char(bytes, one).length;
        if (!add(one, next)) out.copy(text, one, next);
        one = next;
      }
    at = end;
  }
  text = std::move(out);
}

void Normalizer::run(const Nmt&, NormalText& text) {
  constexpr CodeRange dropped[] = {{0x1, 0x8}, {0xB, 0xB}, {0xE, 0x1F}, {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
  constexpr CodeRange spaces[] = {{0x9, 0xA},       {0xC, 0xD},       {0x1680, 0x1680}, {0x200B, 0x200F},
                                  {0x2028, 0x2029}, {0x2581, 0x2581}, {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
  map_characters(text, [&](char32_t code, std::string& out) {
    if (!is_in(dropped, code)) append_utf8(is_in(spaces, code) ? U' ' : code, out);
  });
}

void Normalizer::run(const Bytes&, NormalText& text) {
  NormalText out = text.empty_copy();
  for (std::size_t at = 0; at < text.bytes.size(); ++at) out.add(spell_byte(static_cast<unsigned char>(text.bytes[at])), text, at);
  text = std::move(out);
}

}  // namespace quern::tokenizer
