// Messages of protocol buffers, field by field where they lie; no more than the wire format is known here
// (https://protobuf.dev/programming-guides/encoding/).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::directory {

class ProtoReader {
 public:
  /// `message` lies in `file`, the whole of what `path` holds; `name` is the message's name in errors.
  ProtoReader(const std::string& path, std::string_view file, std::string_view name, std::string_view message)
      : path_(path), file_(file), name_(name), left_(message) {}

  /// Reads the next field; false at the end. Throws Error(QUERN_BAD_MODEL) naming path, message and byte where the message is cut off or
  /// malformed. A field that nobody asks for is skipped by reading the next one.
  bool next();
  std::uint64_t number() const noexcept { return number_; }

  // The field's value. Error(QUERN_BAD_MODEL) naming it by `name` where it has another form.
  std::uint64_t count(std::string_view name) const;
  bool boolean(std::string_view name) const { return count(name) != 0; }
  float f32(std::string_view name) const;
  std::string_view bytes(std::string_view name) const;

 private:
  enum class Form : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

  std::uint64_t read_varint();
  std::string_view take(std::uint64_t bytes);
  void require(Form form, std::string_view name) const;
  [[noreturn]] void fail(std::string_view text) const;

  const std::string& path_;
  std::string_view file_, name_, left_;
  std::uint64_t number_ = 0, value_ = 0;
  std::string_view bytes_;
  Form form_ = Form::varint;
};

}  // namespace quern::directory
