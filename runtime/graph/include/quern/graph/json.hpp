// JSON that was read, as a tree. Its destructor allocates nothing (that of nlohmann_json does, and ends the process where memory has run
// out), its depth is bounded, and nothing is taken for what it is not: what an accessor does not find is null or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quern {

class Json {
 public:
  struct Member;
  using List = std::vector<Json>;
  using Members = std::vector<Member>;

  /// Levels of nesting that parse() takes.
  static constexpr int deepest = 64;

  /// Values that parse() takes unless another number is given: a tree of so many takes 60 MiB at most beside its strings.
  static constexpr std::size_t most_values = 1 << 19;

  /// A long list or object that the root, or the root's member `outer`, has as its member `name`. In the tree it is empty: each entry goes to
  /// `take` as soon as it has been read, with its name if it is an object's. It then counts no longer among the values.
  struct Taken {
    std::string_view outer, name;  // "": the root
    std::function<void(const std::string* member, const Json& entry)> take;
  };

  /// Nothing for text that is no JSON, nests deeper than `deepest`, has more values, or has a list of `taken` twice; `why` then has the
  /// reason, unless it is null. Throws std::bad_alloc, and what `take` throws.
  static std::optional<Json> parse(std::string_view text, std::size_t values = most_values, std::string* why = nullptr,
                                   std::span<const Taken> taken = {});

  Json() = default;
  /// Not the variant's own: libstdc++ 12 visits a variant that holds nothing where the copy of an alternative throws.
  Json(const Json& other);
  Json(Json&&) noexcept = default;
  Json& operator=(const Json& other);
  Json& operator=(Json&&) noexcept = default;
  ~Json();
  template <typename T>
  explicit Json(T value) : value_(std::move(value)) {}

  bool is_null() const noexcept { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const noexcept { return members() != nullptr; }

  const std::string* text() const noexcept { return std::get_if<std::string>(&value_); }
  const bool* boolean() const noexcept { return std::get_if<bool>(&value_); }
  /// A whole number that is not negative.
  const std::uint64_t* count() const noexcept { return std::get_if<std::uint64_t>(&value_); }
  /// Any whole number that the type holds.
  std::optional<std::int64_t> integer() const noexcept;
  std::optional<double> number() const noexcept;
  const List* list() const noexcept { return std::get_if<List>(&value_); }
  const Members* members() const noexcept { return std::get_if<Members>(&value_); }

  /// The member of an object; the last of those with this name; null if there is none, or this is no object.
  const Json* find(std::string_view name) const noexcept;

 private:
  friend struct JsonBuilder;
  std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string, List, Members> value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

// Behind Member, whose size clang wants for them.
inline Json::~Json() = default;
inline Json& Json::operator=(const Json& other) { return *this = Json(other); }

}  // namespace quern
