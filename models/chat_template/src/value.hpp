// What an expression may hold: Python's values as far as chat templates use them.
//
// Strings, sequences and mappings never change once made (the sandbox of transformers forbids it too), so
// they are shared freely and hold no cycles; only a namespace can be written to, and the runtime owns those.
// Containers know how deep they nest, so that no walk over one and no destructor recurses further than the
// runtime allows.
#pragma once

#include "budget.hpp"
#include "marks.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quern::jinja {

class Runtime;
class Value;
struct Arguments;
struct MacroDefinition;
class Scope;

struct Reason {
  std::string text;  ///< what an error says: "'x' is undefined"
  Charge charge;
};
struct Undefined {
  std::shared_ptr<const Reason> reason;  ///< may be null
};
struct None {};

struct Text {
  std::string text;
  bool markup = false;  ///< made by 'safe' or 'escape'
  Marks marks;
  Charge charge;
};

enum class SequenceKind : std::uint8_t { list, tuple, range, keys, values, items };

struct Sequence;
struct Iterator;
struct Mapping;
struct Namespace;
class LoopState;

struct MacroClosure {
  const MacroDefinition* definition;
  Scope* scope;  ///< where it was defined; kept by the runtime
};
struct GlobalFunction {
  std::string_view name;
  Value (*call)(Runtime&, const Arguments&);
};
struct Method {
  std::string_view name;
  Value (*call)(Runtime&, const Value& self, const Arguments&);
};
struct BoundMethod;
struct Callable;

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                               std::shared_ptr<Iterator>, std::shared_ptr<const Mapping>, Namespace*, std::shared_ptr<LoopState>,
                               std::shared_ptr<const Callable>>;

  Value() = default;  ///< undefined, without a reason
  // Release 14 misreads the requirement.
  // clang-format off
  template <typename T>
    requires std::is_constructible_v<Storage, T> && (!std::is_same_v<std::remove_cvref_t<T>, Value>)
  Value(T&& value) : storage_(std::forward<T>(value)) {}  // NOLINT: a value converts from what it holds
  // clang-format on

  template <typename T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&storage_);
  }
  template <typename T>
  bool is() const noexcept {
    return std::holds_alternative<T>(storage_);
  }
  const Storage& storage() const noexcept { return storage_; }

  bool is_undefined() const noexcept { return is<Undefined>(); }
  bool is_none() const noexcept { return is<None>(); }
  const Text* text() const noexcept { return pointer<const Text>(); }
  const Sequence* sequence() const noexcept { return pointer<const Sequence>(); }
  Iterator* iterator() const noexcept { return pointer<Iterator>(); }
  const Mapping* mapping() const noexcept { return pointer<const Mapping>(); }
  LoopState* loop() const noexcept { return pointer<LoopState>(); }
  const Callable* callable() const noexcept { return pointer<const Callable>(); }
  Namespace* names() const noexcept {
    const auto* held = get_if<Namespace*>();
    return held ? *held : nullptr;
  }
  /// int or bool, as Python counts bool among the integers.
  const std::int64_t* integer() const noexcept { return get_if<std::int64_t>(); }

  /// How deep containers nest below this value: 0 for a scalar.
  int depth() const noexcept;

 private:
  template <typename T>
  T* pointer() const noexcept {
    const auto* held = get_if<std::shared_ptr<T>>();
    return held ? held->get() : nullptr;
  }

  Storage storage_;
};

struct Sequence {
  explicit Sequence(Counted<Value> held) : items(std::move(held)) {}

  SequenceKind kind = SequenceKind::list;
  bool hashable = false;  ///< may be a key of a mapping: a range, or a tuple of what may be one
  int depth = 1;
  std::int64_t start = 0, stop = 0, step = 1;  ///< of a range, for its text
  Charge charge;                               ///< of this object; the items count themselves
  Counted<Value> items;
};

/// A generator: always true, read once.
struct Iterator {
  std::shared_ptr<const Sequence> source;
  std::size_t next = 0;
  Charge charge;
};

using Entries = Counted<std::pair<Value, Value>>;

struct Mapping {
  explicit Mapping(Entries held) : entries(std::move(held)) {}

  int depth = 1;
  Charge charge;  ///< of this object; the entries count themselves
  Entries entries;

  /// The value of a key that equals `key`, or null. Counts its comparisons as steps.
  const Value* find(Runtime& runtime, const Value& key) const;
};

struct Namespace {
  explicit Namespace(Budget& budget) : charge(budget, sizeof(Namespace) + block_overhead), attributes(budget) {}

  Charge charge;
  Counted<std::pair<std::string, Value>> attributes;

  /// Null if there is none. Counts its comparisons as steps.
  const Value* find(Runtime& runtime, std::string_view name) const;
  void set(Runtime& runtime, std::string_view name, Value value);
};

struct BoundMethod {
  Value self;
  const Method* method;
};

struct Callable {
  std::variant<MacroClosure, const GlobalFunction*, BoundMethod> target;
  Charge charge;
};

/// Python's name for the type, for error texts: "str", "dict".
std::string_view type_name(const Value& value) noexcept;

}  // namespace quern::jinja
