// The tokens of a JSON text (RFC 8259), one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern {

class JsonLexer {
 public:
  enum class Token : std::uint8_t {
    begin_object,
    end_object,
    begin_list,
    end_list,
    colon,
    comma,
    text,
    count,    // a whole number that is not negative
    integer,  // any other that 64 bits hold
    fraction,
    truth,
    falsehood,
    null,
    end,   // of the whole text
    wrong  // no token begins here, or it is not whole
  };

  /// A byte order mark in front is passed over. `json` has to outlive the lexer.
  explicit JsonLexer(std::string_view json) noexcept;

  /// Throws std::bad_alloc.
  Token next();

  /// Of the last token: its text in UTF-8 until the next one is read, or its number.
  std::string_view text() const noexcept { return token_; }
  std::uint64_t count() const noexcept { return count_; }
  std::int64_t integer() const noexcept { return integer_; }
  double fraction() const noexcept { return fraction_; }

  /// The byte where the last token begins; of a wrong one, the byte that is wrong.
  std::size_t place() const noexcept { return place_; }
  /// The last token is wrong for a byte that is no UTF-8.
  bool is_encoding_wrong() const noexcept { return is_encoding_wrong_; }

 private:
  Token wrong() noexcept;
  Token word(std::string_view word, Token token) noexcept;
  Token string();
  Token string_with_escapes(std::size_t begin);
  Token number();
  bool pass_digits() noexcept;
  void pass_plain() noexcept;
  bool escape();
  bool code_unit(unsigned& unit) noexcept;
  char peek() const noexcept { return at_ < json_.size() ? json_[at_] : '\0'; }

  std::string_view json_, token_;
  std::size_t at_ = 0, place_ = 0;
  std::string unescaped_;
  std::uint64_t count_ = 0;
  std::int64_t integer_ = 0;
  double fraction_ = 0;
  bool is_encoding_wrong_ = false;
};

}  // namespace quern
