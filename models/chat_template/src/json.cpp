// json.dumps, as the tojson filter of transformers calls it.
#include "printing.hpp"

#include "numbers.hpp"
#include "operators.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace quern::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, TextBuilder& out) : runtime_(runtime), style_(style), out_(out) {}

  void write(const Value& value) {
    runtime_.step();
    if (value.text() != nullptr) return write_string(value.text()->text);
    if (value.sequence() != nullptr) return write_array(value);
    if (value.mapping() != nullptr) return write_object(*value.mapping());
    if (!write_scalar(value)) { runtime_.fail(concat("tojson: a ", type_name(value), " cannot be written as JSON")); }
  }

 private:
  bool write_scalar(const Value& value) {
    if (value.is_none()) {
      out_.append("null");
    } else if (const auto* boolean = value.get_if<bool>()) {
      out_.append(*boolean ? "true" : "false");
    } else if (const auto* integer = value.integer()) {
      out_.append(std::to_string(*integer));
    } else if (const auto* real = value.get_if<double>()) {
      out_.append(std::isnan(*real) ? "NaN" : std::isinf(*real) ? (*real > 0 ? "Infinity" : "-Infinity") : format_float(*real));
    } else {
      return false;
    }
    return true;
  }

  void write_escape(char32_t unit) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(unit & 0xffff));
    out_.append(text.data());
  }

  void write_string(std::string_view text) {
    out_.append("\"");
    std::size_t copied = 0;
    walk(runtime_, text, [&](std::size_t start, std::size_t end, char32_t c) {
      const bool plain = c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !style_.ensure_ascii);
      if (plain) return true;
      out_.append(text.substr(copied, start - copied));
      copied = end;
      constexpr std::string_view specials = "\"\\\n\r\t\b\f";
      constexpr std::array<std::string_view, 7> escapes = {"\\\"", "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"};
      const std::size_t index = c < 0x80 ? specials.find(static_cast<char>(c)) : std::string_view::npos;
      if (index != std::string_view::npos) {
        out_.append(escapes[index]);
      } else if (c >= 0x10000) {
        write_escape(0xd800 + ((c - 0x10000) >> 10));
        write_escape(0xdc00 + ((c - 0x10000) & 0x3ff));
      } else {
        write_escape(c);
      }
      return true;
    });
    out_.append(text.substr(copied));
    out_.append("\"");
  }

  void break_line() {
    if (!style_.indent) return;
    out_.append("\n");
    out_.append(static_cast<std::uint64_t>(level_), style_.indent->text()->text);
  }

  void write_array(const Value& value) {
    require_stack(stack_for_a_level, "a nested value of the chat template");
    const Sequence& sequence = *value.sequence();
    if (sequence.kind > SequenceKind::tuple) {
      runtime_.fail(concat("tojson: a ", type_name(value), " cannot be written as JSON; '|list' makes a list of it"));
    }
    if (sequence.items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      break_line();
      write(sequence.items[i]);
    }
    --level_;
    break_line();
    out_.append("]");
  }

  void write_key(const Value& key) {
    if (key.text() != nullptr) return write_string(key.text()->text);
    out_.append("\"");
    if (!write_scalar(key)) runtime_.fail(concat("tojson: a ", type_name(key), " cannot be a key of a JSON object"));
    out_.append("\"");
  }

  void write_object(const Mapping& mapping) {
    require_stack(stack_for_a_level, "a nested value of the chat template");
    if (mapping.entries.empty()) return out_.append("{}");
    Counted<std::size_t> order(style_.sort_keys ? mapping.entries.size() : 0, runtime_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    merge_sort(runtime_, order,
               [&](std::size_t a, std::size_t b) { return less(runtime_, mapping.entries[a].first, mapping.entries[b].first); });
    out_.append("{");
    ++level_;
    for (std::size_t i = 0; i < mapping.entries.size(); ++i) {
      const auto& [key, value] = mapping.entries[style_.sort_keys ? order[i] : i];
      if (i > 0) out_.append(style_.item_separator);
      break_line();
      write_key(key);
      out_.append(style_.key_separator);
      write(value);
    }
    --level_;
    break_line();
    out_.append("}");
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder& out_;
  int level_ = 0;
};

}  // namespace

Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  TextBuilder out(runtime);
  JsonWriter(runtime, style, out).write(value);
  return out.finish();
}

}  // namespace quern::jinja
