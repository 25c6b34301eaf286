// The form of a call: dtypes, shapes and ranges of attributes that an op asks for, whatever the backend.
//
// The table is QUERN_FORM of ops.def. A plugin's `refuse` is asked behind it, and adds what its own kernels cannot do.
//
//   operand    name:dtypes, and then its shape: nothing (any), [dims], =other (that of other) or <other (it broadcasts to other).
//   dtypes     Names of dtypes, float (f32 f16 bf16), block (any format), any, ~other (that of other). Of several between | one.
//   dims       A name is one size throughout, or the attribute of that name. A number is itself. There are n/2 and n+1, and n|1 for either.
//              ".." stands for leading dims. A size with "!" behind it may not be ranged.
//   condition  a>b a>=b a<b a<=b of attributes, sizes and numbers. a%b: a is a multiple of b. finite:a. a->b: where a is there, b is.
//              a|b: one of them is there, or is an attribute that is not 0.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_FORMS_HPP
#define QUERN_SDK_FORMS_HPP

#include "quern/sdk/calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

namespace quern {
namespace sdk {

struct FormRow {
  std::uint32_t op;
  std::string_view inputs, outputs, conditions;
};

inline constexpr FormRow form_rows[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient)
#define QUERN_FORM(NAME, inputs, outputs, conditions) {QUERN_OP_##NAME, inputs, outputs, conditions},
#include "quern/ops.def"
#undef QUERN_OP
};

/// Why a call is none of its op. An empty text: it is one.
struct FormProblem {
  std::string text;
  quern_status code = QUERN_INVALID_ARGUMENT;  ///< UNSUPPORTED for a dtype or a kind that another version of the op may take
};

/// One call against its row.
class Form {
 public:
  explicit Form(const Call& call) : call_(call), op_(find_op(call.op)) {
    for (const FormRow& row : form_rows)
      if (row.op == call.op) row_ = &row;
    if (row_ == nullptr) return;
    add(row_->inputs, call.inputs);
    add(row_->outputs, call.outputs);
  }

  FormProblem problem() {
    if (row_ == nullptr) return {};
    if (const KeyRow* key = call_.attributes->not_a_number(); key != nullptr)
      return {concat(op_->name, ": the attribute ", key->name, " is not a number")};
    for (const Operand& o : operands_)
      if (!has_dtype(o)) return {concat(say(o), "; ", taken(o.dtypes), o.dtypes[0] == '~' ? "" : " is taken"), QUERN_UNSUPPORTED};
    for (const bool derived : {false, true})
      for (const Operand& o : operands_) bind(o, derived);
    for (const Operand& o : operands_)
      if (std::string text = shape_problem(o); !text.empty()) return {text};
    std::string_view rest = row_->conditions;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
      if (std::string text = condition_problem(word); !text.empty())
        return {concat(op_->name, ": ", text), is_choice(word) ? QUERN_UNSUPPORTED : QUERN_INVALID_ARGUMENT};
    return {};
  }

 private:
  struct Operand {
    std::string_view name, dtypes, shape;  // shape: from its '[', '=' or '<' on
    const Tensor* tensor;
  };
  struct Size {
    std::string_view name;
    std::int64_t size;
  };
  struct Value {
    std::int64_t i = 0;
    double f = 0;
    bool whole = true;
  };

  void add(std::string_view text, const TensorList& tensors) {
    std::size_t at = 0;
    for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
      const bool all = word[0] == '*';
      if (all) word.remove_prefix(1);
      const std::size_t colon = word.find(':'), shape = std::min(word.find_first_of("[=<", colon), word.size());
      do {
        if (at < tensors.size() && tensors[at].present())
          operands_.push_back({word.substr(0, colon), word.substr(colon + 1, shape - colon - 1), word.substr(shape), &tensors[at]});
        ++at;
      } while (all && at < tensors.size());
    }
  }
  const Operand* find(std::string_view name) const {
    for (const Operand& o : operands_)
      if (o.name == name) return &o;
    return nullptr;
  }

  // Texts.
  std::string say(const Operand& o) const {
    const std::string_view own = o.tensor->name;
    return concat(op_->name, ": ", o.name, own.empty() || own == o.name ? "" : concat(" '", own, "'"), " is ", shape_text(*o.tensor));
  }
  static std::string taken(std::string_view dtypes) {
    if (dtypes[0] == '~') return concat("it has the dtype of ", dtypes.substr(1));
    std::vector<std::string_view> names;
    for_each_part(dtypes, '|', [&](std::string_view part) {
      if (part == "float") names.insert(names.end(), {"f32", "f16", "bf16"});
      else names.push_back(part == "block" ? "a block format" : part);
    });
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) text += concat(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
    return text;
  }
  template <class Visit>
  static void for_each_part(std::string_view text, char between, const Visit& visit) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(between), text.size());
      visit(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  // Dtypes.
  bool has_dtype(const Operand& o) const {
    bool found = false;
    for_each_part(o.dtypes, '|', [&](std::string_view part) {
      const quern_dtype dtype = o.tensor->dtype;
      if (part[0] == '~') {
        const Operand* other = find(part.substr(1));
        found = found || other == nullptr || other->tensor->dtype == dtype;
      } else {
        found = found || part == "any" || (part == "float" && is_float(dtype)) || (part == "block" && is_block(dtype)) ||
                part == dtype_name(dtype);
      }
    });
    return found;
  }

  // Sizes.
  std::optional<Value> attribute(std::string_view name) const {
    std::string_view rest = op_->attributes;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
      if (word.substr(0, word.find('=')) == name) {
        const KeyRow& key = *find_key(name);
        const Attributes::Number number = call_.attributes->number(key.id);
        return Value{number.i, number.f, key.type == QUERN_ATTR_I64};
      }
    return {};
  }
  std::optional<Value> value(std::string_view name) const {
    if (const auto number = parse_number(name)) return Value{*number, static_cast<double>(*number), true};
    if (const auto given = attribute(name)) return given;
    for (const Size& s : sizes_)
      if (s.name == name) return Value{s.size, static_cast<double>(s.size), true};
    return {};
  }
  static std::optional<std::int64_t> parse_number(std::string_view text) {
    if (text.empty()) return {};
    std::int64_t n = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return {};
      n = n * 10 + (c - '0');
    }
    return n;
  }
  /// A dim as it is written: its base, what is done to it, and whether it may not be ranged.
  struct Dim {
    std::string_view base;
    char change = ' ';
    std::int64_t by = 0;
    bool fixed = false;
  };
  static Dim read_dim(std::string_view text) {
    Dim dim;
    if (text.back() == '!') {
      dim.fixed = true;
      text.remove_suffix(1);
    }
    const std::size_t end = std::min(text.find_first_of("/+|"), text.size());
    dim.base = text.substr(0, end);
    if (end < text.size()) {
      dim.change = text[end];
      dim.by = *parse_number(text.substr(end + 1));
    }
    return dim;
  }
  /// Calls visit(dim, index in the tensor) for the dims of "[..,m,k]". False: the tensor has another rank.
  template <class Visit>
  bool each_dim(const Operand& o, const Visit& visit) const {
    std::string_view inner = o.shape.substr(1, o.shape.size() - 2);
    std::uint32_t count = 0, leading = 0;
    for_each_part(inner, ',', [&](std::string_view) { ++count; });
    const bool open = inner.substr(0, 2) == "..";
    if (open) {
      --count;
      if (o.tensor->rank < count) return false;
      leading = o.tensor->rank - count;
      inner.remove_prefix(std::min<std::size_t>(3, inner.size()));
    } else if (o.tensor->rank != count) {
      return false;
    }
    for_each_part(inner, ',', [&](std::string_view text) { visit(read_dim(text), leading++); });
    return true;
  }
  std::uint32_t leading_of(const Operand& o) const {
    std::uint32_t count = 0;
    each_dim(o, [&](const Dim&, std::uint32_t) { ++count; });
    return o.tensor->rank - count;
  }
  /// The first operand that has a name of a size gives it; where nobody has it alone, the first that has it changed.
  void bind(const Operand& o, bool derived) {
    if (o.shape.empty() || o.shape[0] != '[') return;
    const bool fits = each_dim(o, [&](const Dim& dim, std::uint32_t d) {
      if (value(dim.base) || (dim.change != ' ') != derived) return;
      const std::int64_t n = o.tensor->dims[d];
      sizes_.push_back({dim.base, dim.change == '/' ? n * dim.by : dim.change == '+' ? n - dim.by : n});
    });
    if (fits && o.shape.substr(1, 2) == ".." && leading_ == nullptr) leading_ = &o;
  }

  // Shapes.
  std::string shape_problem(const Operand& o) const {
    if (o.shape.empty()) return {};
    if (o.shape[0] != '[') {
      const Operand* other = find(o.shape.substr(1));
      if (other == nullptr) return {};
      const bool fits = o.shape[0] == '=' ? same_shape(*o.tensor, *other->tensor) : broadcasts(*o.tensor, *other->tensor);
      return fits ? ""
                  : concat(say(o), " and ", other->name, " is ", shape_text(*other->tensor),
                           o.shape[0] == '=' ? "; they have one shape" : concat("; ", o.name, " broadcasts to ", other->name));
    }
    bool fits = true;
    std::string fixed, with, least;
    const bool ranks = each_dim(o, [&](const Dim& dim, std::uint32_t d) {
      const std::int64_t n = o.tensor->dims[d], base = value(dim.base)->i;
      const std::int64_t size = dim.change == '/' ? base / dim.by : dim.change == '+' ? base + dim.by : base;
      fits = fits && (n == size || (dim.change == '|' && n == dim.by));
      if (base < 0) least = concat(", and ", dim.base, " is 0 or more");
      const bool number = parse_number(dim.base).has_value();
      if ((dim.fixed || number) && (o.tensor->ranged >> d & 1u) != 0) fixed = std::string(dim.base);
      if (!number) with += concat(with.empty() ? " with " : ", ", dim.base, " = ", base);
    });
    if (ranks && leading_ != nullptr && o.shape.substr(1, 2) == "..") {
      const std::uint32_t count = leading_of(o);
      fits = fits && count == leading_of(*leading_) && std::equal(o.tensor->dims, o.tensor->dims + count, leading_->tensor->dims);
      if (&o != leading_) with += concat(with.empty() ? " with " : ", ", ".. as in ", leading_->name);
    }
    if (ranks && !least.empty()) return concat(say(o), "; it is ", bare(o.shape), least);
    if (!ranks || !fits) return concat(say(o), "; it is ", bare(o.shape), ranks ? with : "");
    return fixed.empty() ? "" : concat(say(o), "; its ", fixed, " is fixed");
  }
  static std::string bare(std::string_view shape) {
    std::string text;
    for (const char c : shape)
      if (c != '!') text += c;
    return text;
  }

  // Conditions.
  /// Of an attribute whose numbers are names: another version of the op may have more.
  static bool is_choice(std::string_view condition) {
    const std::string_view name = condition.substr(0, condition.find_first_of("<>"));
    return name == "kind" || name == "mode" || name == "scaling";
  }
  bool is_there(std::string_view name) const {
    if (find(name) != nullptr) return true;
    const auto given = attribute(name);
    return given && (given->i != 0 || given->f != 0);
  }
  std::string condition_problem(std::string_view text) const {
    if (const std::size_t arrow = text.find("->"); arrow != std::string_view::npos) {
      const std::string_view of = text.substr(0, arrow), needed = text.substr(arrow + 2);
      return find(of) == nullptr || find(needed) != nullptr ? "" : concat(of, " is wanted but there is no ", needed);
    }
    if (const std::size_t bar = text.find('|'); bar != std::string_view::npos) {
      const std::string_view a = text.substr(0, bar), b = text.substr(bar + 1);
      return is_there(a) || is_there(b) ? "" : concat("neither ", a, " nor ", b, " is given");
    }
    if (text.substr(0, 7) == "finite:") {
      const double f = attribute(text.substr(7))->f;
      return std::isfinite(f) ? "" : concat(text.substr(7), " is ", number_text({0, f, false}), "; it is finite");
    }
    const std::size_t at = text.find_first_of("<>%");
    const bool equal = text[at + 1] == '=';
    const std::string_view a = text.substr(0, at), b = text.substr(at + (equal ? 2 : 1));
    const std::optional<Value> left = value(a), right = value(b);
    if (!left || !right) return {};  // of an operand that is absent
    const std::string found = concat(a, " is ", number_text(*left), parse_number(b) ? "" : concat(" and ", b, " is ", number_text(*right)));
    if (text[at] == '%') return right->i > 0 && left->i % right->i == 0 ? "" : concat(found, "; ", a, " is a multiple of ", b);
    // Kernels compute in f32: an epsilon that is 0 there is none, and a share that is 1 there is all.
    const auto holds = [&](auto x, auto y) { return text[at] == '<' ? (equal ? x <= y : x < y) : equal ? x >= y : x > y; };
    const bool held = left->whole && right->whole
                          ? holds(left->i, right->i)
                          : holds(left->f, right->f) && holds(static_cast<float>(left->f), static_cast<float>(right->f));
    return held ? "" : concat(found, "; it is ", text[at] == '<' ? (equal ? "at most " : "below ") : equal ? "at least " : "above ", b);
  }
  static std::string number_text(const Value& v) {
    if (v.whole) return concat(v.i);
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", v.f);
    return text;
  }

  const Call& call_;
  const OpRow* op_;
  const FormRow* row_ = nullptr;
  std::vector<Operand> operands_;
  std::vector<Size> sizes_;
  const Operand* leading_ = nullptr;  // gives the leading dims of ".."
};

}  // namespace sdk
}  // namespace quern

#endif
