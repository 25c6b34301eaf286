// See json_writer.hpp.
#include "quern/graph/json_writer.hpp"

#include "utf8_size.hpp"

#include <charconv>
#include <cmath>

namespace quern {

void JsonWriter::line() {
  if (style_ == Style::one_line) return;
  out_ += '\n';
  out_.append(static_cast<std::size_t>(depth_) * 2, ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_ += ',';
  first_ = false;
  if (depth_ > 0) line();
}

void JsonWriter::begin(char bracket) {
  separate();
  out_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::end(char bracket) {
  --depth_;
  if (!first_) line();
  out_ += bracket;
  first_ = false;
}

void JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ": ";
  after_key_ = true;
}

void JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
}

void JsonWriter::value(bool truth) {
  separate();
  out_ += truth ? "true" : "false";
}

void JsonWriter::value(std::nullptr_t) {
  separate();
  out_ += "null";
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return value(nullptr);
  separate();
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, number);
  const std::string_view text(digits, static_cast<std::size_t>(written.ptr - digits));
  out_ += text;
  if (text.find_first_of(".e") == std::string_view::npos) out_ += ".0";
}

void JsonWriter::quote(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out_ += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    std::size_t size = utf8_size(text);
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += text[0];
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (c == '\t') {
      out_ += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      out_ += "\\u00";
      out_ += hex[c >> 4];
      out_ += hex[c & 15];
    } else if (size == 0) {
      out_ += "\xef\xbf\xbd";
      size = 1;
    } else {
      out_.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
  out_ += '"';
}

}  // namespace quern
