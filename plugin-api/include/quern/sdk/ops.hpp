// The op set as a table, and the attributes of a node with the defaults of ops.def.
//
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_OPS_HPP
#define QUERN_SDK_OPS_HPP

#include "quern/quern_ops.h"
#include "quern/sdk/lists.hpp"

#include <limits>

namespace quern {
namespace sdk {

struct OpRow {
  std::uint32_t id;
  std::string_view name;
  std::string_view inputs;  ///< "x weight?"
  std::string_view outputs;
  std::string_view attributes;  ///< "epsilon weight_offset=0"
};

inline constexpr OpRow op_rows[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, #name, inputs, outputs, attributes},
#include "quern/ops.def"
#undef QUERN_OP
};

struct KeyRow {
  std::uint32_t id;
  std::string_view name;
  std::uint32_t type;  ///< QUERN_ATTR_...
};

inline constexpr KeyRow key_rows[] = {
#define QUERN_KEY(id, NAME, name, type) {id, #name, QUERN_ATTR_##type},
#include "quern/keys.def"
#undef QUERN_KEY
};

constexpr const OpRow* find_op(std::uint32_t id) noexcept {
  for (const OpRow& row : op_rows) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

/// The place of the input that a node writes besides its outputs; none: it writes no input.
constexpr std::size_t no_written_input = static_cast<std::size_t>(-1);
constexpr std::size_t written_input(std::uint32_t op) noexcept {
  return op == QUERN_OP_TOKEN_PUBLISH ? 1 : no_written_input;  // which counts its sequence number up
}

constexpr const KeyRow* find_key(std::string_view name) noexcept {
  for (const KeyRow& row : key_rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

constexpr const KeyRow* find_key(std::uint32_t id) noexcept {
  for (const KeyRow& row : key_rows) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

/// A default of ops.def: [-]digits[.digits][e[-]digits] or [-]inf. Exact to the last bit for up to 15 digits and
/// exponents up to 22, which a test proves of every default.
constexpr double parse_default(std::string_view text) noexcept {
  std::size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++i;
  if (text.substr(i) == "inf") { return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity(); }
  double digits = 0;
  int exponent = 0;
  bool fraction = false;
  for (; i < text.size() && text[i] != 'e'; ++i) {
    if (text[i] == '.') {
      fraction = true;
    } else {
      digits = digits * 10 + (text[i] - '0');
      if (fraction) --exponent;
    }
  }
  if (i < text.size()) {
    ++i;
    const bool down = i < text.size() && text[i] == '-';
    if (down) ++i;
    int written = 0;
    for (; i < text.size(); ++i) written = written * 10 + (text[i] - '0');
    exponent += down ? -written : written;
  }
  double power = 1;
  for (int e = exponent < 0 ? -exponent : exponent; e > 0; --e) power *= 10;
  const double value = exponent < 0 ? digits / power : digits * power;
  return negative ? -value : value;
}

/// The next space-separated word of `rest`, which shrinks.
constexpr std::string_view next_word(std::string_view& rest) noexcept {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  std::size_t size = 0;
  while (size < rest.size() && rest[size] != ' ') ++size;
  const std::string_view word = rest.substr(0, size);
  rest.remove_prefix(size);
  return word;
}

struct Arity {
  std::uint32_t least = 0;
  std::uint32_t most = 0;  ///< UINT32_MAX after a "*"
};

constexpr Arity arity(std::string_view names) noexcept {
  Arity result;
  std::uint32_t seen = 0;
  for (std::string_view word = next_word(names); !word.empty(); word = next_word(names)) {
    ++seen;
    if (word.front() == '*') return {1, std::numeric_limits<std::uint32_t>::max()};
    if (word.back() != '?') result.least = seen;
  }
  result.most = seen;
  return result;
}

/// The attributes of one node: what was sent, else the default of ops.def. Holds no memory and allocates nothing.
class Attributes {
 public:
  /// Reads the node's list. What it cannot accept is in problem(), the text of a "no" [C4]; a malformed list throws.
  explicit Attributes(const quern_node& node) {
    const OpRow* op = find_op(node.op);
    if (op == nullptr) {
      problem_ = concat("op ", node.op, " is not in the op set ", QUERN_OPSET_VERSION);
      return;
    }
    read_defaults(op->attributes);
    for (const quern_attribute& sent : List<quern_attribute>(node.attributes, "attributes")) take(op->name, sent);
    for (std::uint32_t i = 0; i < count_ && problem_.empty(); ++i) {
      if (!slots_[i].present) problem_ = concat(op->name, " needs the attribute ", slots_[i].key->name);
    }
  }

  const std::string& problem() const noexcept { return problem_; }

  /// Throws QUERN_INTERNAL for a key that the op does not have: an error in the plugin.
  std::int64_t integer(std::uint32_t key) const { return find(key, QUERN_ATTR_I64).i; }
  double real(std::uint32_t key) const { return find(key, QUERN_ATTR_F64).f; }

  /// Both forms of an attribute, whatever its type: for kernels, which cannot throw. Zeros for a key that the op does not have.
  struct Number {
    std::int64_t i = 0;
    double f = 0;
  };
  Number number(std::uint32_t key) const noexcept {
    for (std::uint32_t n = 0; n < count_; ++n) {
      const Slot& slot = slots_[n];
      if (slot.key->id != key) continue;
      if (slot.key->type == QUERN_ATTR_I64) return {slot.i, static_cast<double>(slot.i)};
      return {slot.f > -0x1p62 && slot.f < 0x1p62 ? static_cast<std::int64_t>(slot.f) : 0, slot.f};
    }
    return {};
  }
  /// An attribute that was sent and is a NaN; null: none is.
  const KeyRow* not_a_number() const noexcept {
    for (std::uint32_t n = 0; n < count_; ++n)
      if (slots_[n].sent && slots_[n].key->type == QUERN_ATTR_F64 && !(slots_[n].f == slots_[n].f)) return slots_[n].key;
    return nullptr;
  }

 private:
  struct Slot {
    const KeyRow* key;
    bool present;
    bool sent;
    std::int64_t i;
    double f;
  };

  void read_defaults(std::string_view text) {
    for (std::string_view word = next_word(text); !word.empty() && count_ < max_slots; word = next_word(text)) {
      const std::size_t equals = word.find('=');
      Slot& slot = slots_[count_++];
      slot.key = find_key(word.substr(0, equals));
      slot.sent = false;
      slot.present = equals != std::string_view::npos;
      slot.f = slot.present ? parse_default(word.substr(equals + 1)) : 0;
      slot.i = slot.present && slot.key->type == QUERN_ATTR_I64 ? static_cast<std::int64_t>(slot.f) : 0;
    }
  }

  void take(std::string_view op, const quern_attribute& sent) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      Slot& slot = slots_[i];
      if (slot.key->id != sent.key) continue;
      if (sent.type != slot.key->type) {
        problem_ = concat(op, ": the attribute ", slot.key->name, " came with type ", sent.type, ", not ", slot.key->type);
      } else if (slot.sent) {
        problem_ = concat(op, ": the attribute ", slot.key->name, " came twice");
      }
      slot.present = slot.sent = true;
      slot.i = sent.i;
      slot.f = sent.f;
      return;
    }
    const KeyRow* row = find_key(sent.key);
    problem_ = concat(op, " has no attribute with key ", sent.key, row == nullptr ? "" : concat(" (", row->name, ")"), " in op set ",
                      QUERN_OPSET_VERSION);
  }

  const Slot& find(std::uint32_t key, std::uint32_t type) const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (slots_[i].key->id == key && slots_[i].key->type == type) return slots_[i];
    }
    throw Failure(QUERN_INTERNAL, concat("attribute key ", key, " is not one of this op's"));
  }

  static constexpr std::uint32_t max_slots = 16;
  Slot slots_[max_slots] = {};
  std::uint32_t count_ = 0;
  std::string problem_;
};

}  // namespace sdk
}  // namespace quern

#endif
