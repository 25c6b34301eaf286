// See json_writer.hpp.
#include "quern/graph/json_writer.hpp"

#include <charconv>
#include <cmath>

namespace quern {
namespace {

/// Bytes of the well-formed UTF-8 character at the front (Unicode 15, table 3-7); 0 if there is none.
std::size_t character(std::string_view text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned lead = at(0), second = at(1);
  const auto continues = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned least = lead == 0xe0 ? 0xa0 : 0x80, most = lead == 0xed ? 0x9f : 0xbf;
    return second >= least && second <= most && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned least = lead == 0xf0 ? 0x90 : 0x80, most = lead == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

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
    std::size_t size = character(text);
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
