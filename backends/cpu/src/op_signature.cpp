// Reads the columns of ops.def: "x weight?" and "epsilon weight_offset=0".
#include "op_signature.hpp"

#include "error.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace quern::cpu {
namespace {

constexpr OpSignature ops[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, #name, #group, inputs, outputs, attributes},
#include "quern/ops.def"
#undef QUERN_OP
};

struct Key {
  std::uint32_t id;
  std::string_view name;
  bool integer;
};
constexpr bool is_integer(std::string_view type) { return type == "I64"; }
constexpr Key keys[] = {
#define QUERN_KEY(id, NAME, name, type) {id, #name, is_integer(#type)},
#include "quern/keys.def"
#undef QUERN_KEY
};

const Key* find_key(std::string_view name) noexcept {
  const auto* at = std::ranges::find(keys, name, &Key::name);
  return at == std::end(keys) ? nullptr : at;
}
const Key* find_key(std::uint32_t id) noexcept {
  const auto* at = std::ranges::find(keys, id, &Key::id);
  return at == std::end(keys) ? nullptr : at;
}

/// Takes the next word off the front of `text`.
std::string_view next_word(std::string_view& text) noexcept {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

Verdict check_list(const OpSignature& op, const char* what, std::string_view names, const std::vector<bool>& present) {
  std::string_view rest = names;
  std::size_t i = 0;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest), ++i) {
    if (word.front() == '*') {
      if (present.empty() || !std::ranges::all_of(present, [](bool p) { return p; }))
        return Verdict::invalid(concat(op.name, " takes one or more ", what, "s, none of them absent"));
      return Verdict::yes();
    }
    if (word.back() != '?' && (i >= present.size() || !present[i]))
      return Verdict::invalid(concat(op.name, ": ", what, " ", i, " ('", word, "') is missing; it takes '", names, "'"));
  }
  if (present.size() > i) return Verdict::invalid(concat(op.name, " has ", present.size(), " ", what, "s; it takes '", names, "'"));
  return Verdict::yes();
}

}  // namespace

const OpSignature* find_op(std::uint32_t id) noexcept {
  const auto* at = std::ranges::find(ops, id, &OpSignature::id);
  return at == std::end(ops) ? nullptr : at;
}

Verdict check_arity(const OpSignature& op, const std::vector<bool>& inputs_present, const std::vector<bool>& outputs_present) {
  if (Verdict v = check_list(op, "input", op.inputs, inputs_present); !v) return v;
  return check_list(op, "output", op.outputs, outputs_present);
}

Verdict resolve_attributes(const OpSignature& op, std::span<const quern_attribute> sent, std::vector<AttributeValue>& out) {
  out.clear();
  std::size_t used = 0;
  std::string_view rest = op.attributes;
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const Key* key = find_key(word.substr(0, equals));
    if (key == nullptr) return Verdict::no(concat(op.name, ": attribute '", word, "' has no key in this plugin"));
    AttributeValue value{key->id, false, 0, 0.0};
    const auto same = [key](const quern_attribute& a) { return a.key == key->id; };
    const auto count = std::ranges::count_if(sent, same);
    if (count > 1) return Verdict::invalid(concat(op.name, ": attribute '", key->name, "' is sent ", count, " times"));
    if (count == 1) {
      const quern_attribute& a = *std::ranges::find_if(sent, same);
      ++used;
      value.given = true;
      if (a.type == QUERN_ATTR_I64 && key->integer) {
        value.integer = a.i;
        value.real = static_cast<double>(a.i);
      } else if (a.type == QUERN_ATTR_F64 && !key->integer) {
        if (std::isnan(a.f)) return Verdict::invalid(concat(op.name, ": attribute '", key->name, "' is not a number"));
        value.real = a.f;
        value.integer = std::fabs(a.f) < 0x1p62 ? static_cast<std::int64_t>(a.f) : 0;
      } else {
        return Verdict::no(concat(op.name, ": attribute '", key->name, "' has type ", a.type, "; it is ",
                                  key->integer ? "an integer (1)" : "a real number (2)"));
      }
    } else if (equals == word.size()) {
      return Verdict::invalid(concat(op.name, " needs attribute '", key->name, "'"));
    } else {
      const std::string_view text = word.substr(equals + 1);
      std::from_chars(text.data(), text.data() + text.size(), value.real);  // "inf" and "-inf" too
      value.integer = std::fabs(value.real) < 0x1p62 ? static_cast<std::int64_t>(value.real) : 0;
    }
    out.push_back(value);
  }
  if (used != sent.size())
    for (const quern_attribute& a : sent)
      if (std::ranges::none_of(out, [&](const AttributeValue& v) { return v.key == a.key; })) {
        const Key* key = find_key(a.key);
        return Verdict::no(concat(op.name, " has no attribute ", a.key, key == nullptr ? "" : " ('", key == nullptr ? "" : key->name,
                                  key == nullptr ? "" : "')", "; it has '", op.attributes, "'"));
      }
  return Verdict::yes();
}

}  // namespace quern::cpu
