#include "line_buffer.hpp"

#include "characters.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

/// Words are runs of letters, digits and all that is not ASCII.
bool in_word(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code >= 0x80 || (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') || code == '_';
}

}  // namespace

std::size_t LineBuffer::previous() const { return character_before(text_, cursor_); }

std::size_t LineBuffer::next() const { return cursor_ == text_.size() ? cursor_ : cursor_ + character_at(text_, cursor_).bytes; }

std::size_t LineBuffer::word_before() const {
  std::size_t at = cursor_;
  while (at > 0 && !in_word(text_[at - 1])) --at;
  while (at > 0 && in_word(text_[at - 1])) --at;
  return at;
}

std::size_t LineBuffer::word_after() const {
  std::size_t at = cursor_;
  while (at < text_.size() && !in_word(text_[at])) ++at;
  while (at < text_.size() && in_word(text_[at])) ++at;
  return at;
}

void LineBuffer::erase(std::size_t from, std::size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineBuffer::replace(std::size_t from, std::string_view text) {
  erase(from, cursor_);
  insert(text);
}

void LineBuffer::erase_before() { erase(previous(), cursor_); }
void LineBuffer::erase_after() { erase(cursor_, next()); }

void LineBuffer::erase_to_start() {
  const std::size_t end = cursor_;
  to_start();
  erase(cursor_, end);
}

void LineBuffer::erase_to_end() {
  const std::size_t from = cursor_;
  to_end();
  erase(from, cursor_);
}

void LineBuffer::erase_word_before() {
  std::size_t from = cursor_;  // as a shell does: up to a blank
  while (from > 0 && (text_[from - 1] == ' ' || text_[from - 1] == '\n')) --from;
  while (from > 0 && text_[from - 1] != ' ' && text_[from - 1] != '\n') --from;
  erase(from, cursor_);
}

void LineBuffer::erase_word_after() { erase(cursor_, word_after()); }

void LineBuffer::left() { cursor_ = previous(); }
void LineBuffer::right() { cursor_ = next(); }
void LineBuffer::word_left() { cursor_ = word_before(); }
void LineBuffer::word_right() { cursor_ = word_after(); }

void LineBuffer::to_start() {
  const std::size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  cursor_ = newline == std::string::npos ? 0 : newline + 1;
}

void LineBuffer::to_end() { cursor_ = std::min(text_.find('\n', cursor_), text_.size()); }

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::set(std::string text, std::size_t cursor) {
  text_ = std::move(text);
  cursor_ = cursor;
}

}  // namespace quern::cli
