#include "key_parser.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

constexpr std::string_view paste_begins = "\x1b[200~";
constexpr std::string_view paste_ends = "\x1b[201~";
constexpr std::size_t longest_sequence = 32;  // of a CSI sequence; a longer one is no key

bool is_text(char byte) { return static_cast<unsigned char>(byte) >= 32 && byte != 127; }

/// How many bytes the UTF-8 character that begins so has; 1 for what begins none.
std::size_t length_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte >= 0xF0 && byte < 0xF8 ? 4 : byte >= 0xE0 && byte < 0xF0 ? 3 : byte >= 0xC0 && byte < 0xE0 ? 2 : 1;
}

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Whether the text ends inside a character whose rest may still come.
bool ends_inside_a_character(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char byte = text[text.size() - back];
    if (!continues(byte)) return length_of(byte) > back;
  }
  return false;
}

std::string clean_paste(std::string_view raw) {
  std::string out;
  for (std::size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] == '\r') {
      out += '\n';
      if (at + 1 < raw.size() && raw[at + 1] == '\n') ++at;
    } else if (raw[at] == '\n' || raw[at] == '\t' || is_text(raw[at])) {
      out += raw[at];
    }
  }
  return out;
}

KeyKind kind_of(char final_byte, std::string_view parameters) {
  const std::size_t semicolon = parameters.find(';');
  const bool modified = semicolon != std::string_view::npos && parameters.substr(semicolon + 1) != "1";
  const std::string_view number = parameters.substr(0, semicolon);
  switch (final_byte) {
    case 'A': return KeyKind::up;
    case 'B': return KeyKind::down;
    case 'C': return modified ? KeyKind::word_right : KeyKind::right;
    case 'D': return modified ? KeyKind::word_left : KeyKind::left;
    case 'H': return KeyKind::home;
    case 'F': return KeyKind::end;
    case '~':
      if (number == "1" || number == "7") return KeyKind::home;
      if (number == "4" || number == "8") return KeyKind::end;
      if (number == "3") return KeyKind::erase;
      return KeyKind::unknown;
    default: return KeyKind::unknown;
  }
}

}  // namespace

Key KeyParser::take(std::size_t bytes, KeyKind kind, std::string text) {
  pending_.erase(0, bytes);
  return {kind, std::move(text)};
}

std::optional<Key> KeyParser::pasted() {
  const std::size_t end = pending_.find(paste_ends, paste_begins.size());
  if (end == std::string::npos) return {};
  std::string text = clean_paste(std::string_view(pending_).substr(paste_begins.size(), end - paste_begins.size()));
  return take(end + paste_ends.size(), KeyKind::paste, std::move(text));
}

std::optional<Key> KeyParser::escape_sequence(bool no_more) {
  if (pending_.size() == 1) return no_more ? std::optional(take(1, KeyKind::escape)) : std::nullopt;
  const char second = pending_[1];
  if (second != '[' && second != 'O') {
    if (second == '\r' || second == '\n') return take(2, KeyKind::alt_enter);
    if (second == 127 || second == '\b') return take(2, KeyKind::control, "W");
    if (second == '\x1b') return take(1, KeyKind::escape);
    if (!is_text(second)) return take(2, KeyKind::unknown);
    const std::size_t bytes = std::min(length_of(second), pending_.size() - 1);
    return take(1 + bytes, KeyKind::alt, pending_.substr(1, bytes));
  }
  std::size_t at = 2;
  while (at < pending_.size() && at < longest_sequence && pending_[at] >= 0x20 && pending_[at] < 0x40) ++at;
  if (at == pending_.size()) return no_more ? std::optional(take(at, KeyKind::unknown)) : std::nullopt;
  if (std::string_view(pending_).starts_with(paste_begins)) return pasted();
  const KeyKind kind = kind_of(pending_[at], std::string_view(pending_).substr(2, at - 2));
  return take(at + 1, kind);
}

std::optional<Key> KeyParser::next(bool no_more) {
  if (pending_.empty()) return {};
  const char first = pending_.front();
  if (first == '\x1b') return escape_sequence(no_more);
  if (first == '\r' || first == '\n') return take(1, KeyKind::enter);
  if (first == '\t') return take(1, KeyKind::tab);
  if (first == 127 || first == '\b') return take(1, KeyKind::backspace);
  if (first == 0) return take(1, KeyKind::unknown);
  if (!is_text(first)) return take(1, KeyKind::control, std::string(1, static_cast<char>(first + 64)));
  const auto end = std::ranges::find_if_not(pending_, is_text);
  std::string text(pending_.begin(), end);
  if (end == pending_.end() && !no_more) {
    while (ends_inside_a_character(text)) text.pop_back();
    if (text.empty()) return {};
  }
  return take(text.size(), KeyKind::text, text);
}

}  // namespace quern::cli
