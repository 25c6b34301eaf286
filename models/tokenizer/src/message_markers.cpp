// See message_markers.hpp.
#include "message_markers.hpp"

#include "marker_matcher.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <array>

namespace quern::tokenizer {
namespace {

// Elements of HTML, sorted: a tag of one is a word of plain text. <s> is left out: it opens a text in many vocabularies.
constexpr std::array<std::string_view, 111> html_elements = {
    "a",       "abbr",   "address",  "area",     "article",  "aside",  "audio", "b",        "base",    "bdi",      "bdo",      "blockquote",
    "body",    "br",     "button",   "canvas",   "caption",  "center", "cite",  "code",     "col",     "colgroup", "data",     "datalist",
    "dd",      "del",    "details",  "dfn",      "dialog",   "div",    "dl",    "dt",       "em",      "embed",    "fieldset", "figcaption",
    "figure",  "font",   "footer",   "form",     "h1",       "h2",     "h3",    "h4",       "h5",      "h6",       "head",     "header",
    "hr",      "html",   "i",        "iframe",   "img",      "input",  "ins",   "kbd",      "label",   "legend",   "li",       "link",
    "main",    "map",    "mark",     "menu",     "meta",     "meter",  "nav",   "noscript", "object",  "ol",       "optgroup", "option",
    "output",  "p",      "picture",  "pre",      "progress", "q",      "rp",    "rt",       "ruby",    "samp",     "script",   "search",
    "section", "select", "small",    "source",   "span",     "strong", "style", "sub",      "summary", "sup",      "svg",      "table",
    "tbody",   "td",     "template", "textarea", "tfoot",    "th",     "thead", "time",     "title",   "tr",       "track",    "u",
    "ul",      "var",    "video"};
static_assert(std::ranges::is_sorted(html_elements));

bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// <...> or [...]
bool has_brackets(std::string_view text) noexcept {
  return text.size() > 2 && ((text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']'));
}

// <table>, </table>, <br/>
bool is_html_tag(std::string_view text) noexcept {
  if (text.front() != '<') return false;
  std::string_view name = text.substr(1, text.size() - 2);
  if (name.starts_with('/')) {
    name.remove_prefix(1);
  } else if (name.ends_with('/')) {
    name.remove_suffix(1);
  }
  return std::ranges::binary_search(html_elements, name);
}

// Tokens that the file names.
bool has_a_role(const Vocabulary& vocabulary, std::int32_t id) noexcept {
  return id == vocabulary.bos || id == vocabulary.eos || id == vocabulary.eot || id == vocabulary.eom || id == vocabulary.unknown;
}

// Long enough, with a letter and with a sign: what a template may use as a marker without brackets ("USER:").
bool may_be_a_marker(std::string_view text) noexcept {
  constexpr std::size_t shortest = 4;
  const auto is_sign = [](char c) { return c > ' ' && c < 0x7f && !is_letter(c) && !is_digit(c); };
  return (text.size() >= shortest || has_brackets(text)) && std::ranges::any_of(text, is_letter) && std::ranges::any_of(text, is_sign);
}

}  // namespace

std::vector<bool> find_message_markers(const Vocabulary& vocabulary, std::string_view chat_template) {
  std::vector<bool> markers(static_cast<std::size_t>(vocabulary.size()));
  std::vector<Marker> doubtful;  // markers if the template has them
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const std::string_view text = vocabulary.text(id);
    const bool is_user_defined = type == TokenType::user_defined;
    if (type == TokenType::control || type == TokenType::unknown ||
        (is_user_defined && ((has_brackets(text) && !is_html_tag(text)) || has_a_role(vocabulary, id)))) {
      markers[static_cast<std::size_t>(id)] = true;
    } else if (is_user_defined && may_be_a_marker(text)) {
      doubtful.push_back({.text = std::string(text), .id = id});
    }
  }
  for (const auto& match : MarkerMatcher(std::move(doubtful)).find(chat_template, true)) markers[static_cast<std::size_t>(match.id)] = true;
  return markers;
}

}  // namespace quern::tokenizer
