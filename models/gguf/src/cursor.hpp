// Reads little-endian fields from bytes that may end anywhere.
//
// Every read is checked against the end first. A failure names the file, what is being read and the byte
// offset of the field; the subject (a key or a tensor) is set by the caller as it becomes known.
#pragma once

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace quern::gguf {

static_assert(std::endian::native == std::endian::little, "the reader maps little-endian values as they lie");

/// The value of a type without alignment demands at `at`.
template <typename T>
T load(const std::byte* at) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

class Cursor {
 public:
  /// Both must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, const std::string& file) noexcept : bytes_(bytes), file_(file) {}

  std::uint64_t at() const noexcept { return at_; }
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }
  const std::byte* here() const noexcept { return bytes_.data() + at_; }

  /// Names what the next reads belong to, such as "tensor" and its name; `subject` is kept as a view.
  void belong_to(std::string_view kind, std::string_view subject) noexcept {
    kind_ = kind;
    subject_ = subject;
  }

  /// The error for a field that starts at `offset`: "<file>: <kind> '<subject>': <field> (byte <offset>)
  /// <text>".
  Error error(std::string_view field, std::uint64_t offset, std::string_view text) const {
    const std::string owner = kind_.empty() ? std::string() : concat(kind_, " ", in_quotes(subject_), ": ");
    return Error(QUERN_BAD_MODEL, concat(file_, ": ", owner, field, " (byte ", offset, ") ", text));
  }

  template <typename T>
  T read(std::string_view field) {
    if (left() < sizeof(T)) throw cut_off(field, sizeof(T));
    const T value = load<T>(here());
    at_ += sizeof(T);
    return value;
  }

  void skip(std::uint64_t count, std::string_view field) {
    if (left() < count) throw cut_off(field, count);
    at_ += count;
  }

  /// A length of 64 bits and as many bytes.
  std::string_view string(std::string_view field) {
    const std::uint64_t start = at_;
    const auto length = read<std::uint64_t>(field);
    if (left() < length) throw too_long(field, start, length);
    const std::string_view text(reinterpret_cast<const char*>(here()), static_cast<std::size_t>(length));
    at_ += length;
    return text;
  }

 private:
  Error cut_off(std::string_view field, std::uint64_t need) const {
    return error(field, at_,
                 concat("needs ", need, " bytes but the file ends at byte ", bytes_.size(), "; the download is probably incomplete"));
  }
  Error too_long(std::string_view field, std::uint64_t start, std::uint64_t length) const {
    return error(field, start,
                 concat("has a length of ", length, " bytes but the file ends at byte ", bytes_.size(),
                        "; the file is damaged or the download is incomplete"));
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t at_ = 0;
  std::string_view kind_;
  std::string_view subject_;
};

}  // namespace quern::gguf
