#include "line_editor.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::size_t LineBuffer::previous() const {
  std::size_t at = cursor_;
  while (at > 0 && continues(text_[--at])) {
  }
  return at;
}

std::size_t LineBuffer::next() const {
  std::size_t at = std::min(cursor_ + 1, text_.size());
  while (at < text_.size() && continues(text_[at])) ++at;
  return at;
}

void LineBuffer::insert(char byte) { text_.insert(cursor_++, 1, byte); }

void LineBuffer::erase_before() {
  const std::size_t from = previous();
  text_.erase(from, cursor_ - from);
  cursor_ = from;
}

void LineBuffer::erase_after() { text_.erase(cursor_, next() - cursor_); }

void LineBuffer::erase_to_start() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

void LineBuffer::erase_to_end() { text_.erase(cursor_); }

void LineBuffer::erase_word() {
  std::size_t from = cursor_;
  while (from > 0 && text_[from - 1] == ' ') --from;
  while (from > 0 && text_[from - 1] != ' ') --from;
  text_.erase(from, cursor_ - from);
  cursor_ = from;
}

void LineBuffer::left() { cursor_ = previous(); }

void LineBuffer::right() { cursor_ = next(); }

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

std::size_t LineBuffer::columns_after_cursor() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(text_.begin() + static_cast<std::ptrdiff_t>(cursor_), text_.end(),
                            [](char byte) { return !continues(byte); }));
}

}  // namespace quern::cli
