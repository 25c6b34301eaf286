#include "protobuf.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <cstring>

namespace quern::directory {

void ProtoReader::fail(std::string_view text) const {
  throw Error(QUERN_BAD_MODEL, concat(path_, ": byte ", left_.data() - file_.data(), ": ", in_quotes(name_), " ", text));
}

std::uint64_t ProtoReader::read_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (left_.empty()) fail("is cut off inside a number");
    const auto byte = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("has a number of more than ten bytes; is this a SentencePiece model?");
}

std::string_view ProtoReader::take(std::uint64_t bytes) {
  if (bytes > left_.size())
    fail(concat("has a field of ", bytes, " bytes where ", left_.size(), " are left; the download is probably incomplete"));
  const std::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(bytes);
  return taken;
}

bool ProtoReader::next() {
  if (left_.empty()) return false;
  const std::uint64_t tag = read_varint();
  number_ = tag >> 3;
  if (number_ == 0) fail("has a field of number 0; is this a SentencePiece model?");
  form_ = static_cast<Form>(tag & 7);
  bytes_ = {};
  value_ = 0;
  switch (form_) {
    case Form::varint: value_ = read_varint(); return true;
    case Form::fixed64: bytes_ = take(8); return true;
    case Form::fixed32: bytes_ = take(4); return true;
    case Form::length: bytes_ = take(read_varint()); return true;
  }
  fail(concat("has a field of form ", tag & 7, ", which is none; is this a SentencePiece model?"));
}

void ProtoReader::require(Form form, std::string_view name) const {
  if (form_ != form)
    fail(concat("has ", in_quotes(name), " in the form ", static_cast<int>(form_), ", and it has the form ", static_cast<int>(form)));
}

std::uint64_t ProtoReader::count(std::string_view name) const {
  require(Form::varint, name);
  return value_;
}

float ProtoReader::f32(std::string_view name) const {
  require(Form::fixed32, name);
  float value = 0;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view ProtoReader::bytes(std::string_view name) const {
  require(Form::length, name);
  return bytes_;
}

}  // namespace quern::directory
