// See terminal_output.hpp.
#include "quern/base/terminal_output.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace quern {

Drawing& Drawing::clear_line() {
  bytes_ += "\r\x1b[K";
  return *this;
}

Drawing& Drawing::text(std::string_view text) {
  bytes_ += printable(whole_characters(text));
  return *this;
}

Drawing& Drawing::rows(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    this->text(text.substr(0, end));
    if (end < text.size()) bytes_ += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return *this;
}

Drawing& Drawing::clear_below() {
  bytes_ += "\r\x1b[J";
  return *this;
}

Drawing& Drawing::clear_screen() {
  bytes_ += "\x1b[H\x1b[2J";
  return *this;
}

Drawing& Drawing::up(std::size_t rows) {
  if (rows > 0) bytes_ += "\x1b[" + std::to_string(rows) + "A";
  return *this;
}

Drawing& Drawing::column(std::size_t column) {
  bytes_ += '\r';
  if (column > 0) bytes_ += "\x1b[" + std::to_string(column) + "C";
  return *this;
}

Drawing& Drawing::mark_pastes(bool on) {
  bytes_ += on ? "\x1b[?2004h" : "\x1b[?2004l";
  return *this;
}

Drawing& Drawing::style(Style style) {
  constexpr std::array<std::string_view, 9> codes{"1", "2", "3", "4", "31", "32", "33", "34", "36"};  // in the order of Style
  bytes_ += "\x1b[";
  bytes_ += codes[static_cast<std::size_t>(style)];
  bytes_ += 'm';
  return *this;
}

Drawing& Drawing::no_style() {
  bytes_ += "\x1b[0m";
  return *this;
}

Drawing& Drawing::copy(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  bytes_ += "\x1b]52;c;";
  for (std::size_t at = 0; at < text.size(); at += 3) {
    const std::size_t here = std::min<std::size_t>(text.size() - at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < here ? static_cast<unsigned char>(text[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) bytes_ += i <= here ? digits[bits >> (18 - 6 * i) & 63] : '=';
  }
  bytes_ += '\a';
  return *this;
}

std::size_t columns_of(std::string_view text) {
  const std::string shown = printable(whole_characters(text));
  return static_cast<std::size_t>(std::ranges::count_if(shown, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool TerminalOutput::is_terminal() const { return ::isatty(file_) == 1; }

int TerminalOutput::write(std::string_view text) { return escapes() ? put(pieces_.add(text)) : put(text); }

void TerminalOutput::write_in_handler(int file, std::string_view line) noexcept {
  TerminalOutput output(file, Kind::messages);
  if (output.is_terminal()) output.put("\n");
  output.put(line);
}

int TerminalOutput::write_json(std::string_view json) {
  if (!escapes()) return put(json);
  const bool ends_line = json.ends_with('\n');
  return put(printable_json(ends_line ? json.substr(0, json.size() - 1) : json) + (ends_line ? "\n" : ""));
}

int TerminalOutput::draw(const Drawing& drawing) { return put(drawing.bytes()); }

// Not stdio: a write that Ctrl-C interrupts goes on where it stopped, and nothing is lost.
int TerminalOutput::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int TerminalBuffer::overflow(int c) {
  if (sync() != 0) return traits_type::eof();
  if (c != traits_type::eof()) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int TerminalBuffer::sync() {
  if (problem_ == 0) problem_ = output_.write({pbase(), static_cast<std::size_t>(pptr() - pbase())});
  setp(buffer_, buffer_ + sizeof buffer_);
  return problem_ == 0 ? 0 : -1;
}

}  // namespace quern
