// Text as Python sees it: UTF-8 in storage, code points in every answer.
//
// Every string inside a render is valid UTF-8 (checked once, where it comes in), so the walkers here do not
// check again. Case and categories are Unicode's, from utf8proc; whitespace is what str.isspace() accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::jinja {

/// The offset of the first byte that is not part of valid UTF-8, or npos. Surrogates and overlong forms are
/// not valid.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

/// The code point that starts at `offset`, which is then moved behind it. `offset` must be below the size.
char32_t next_code_point(std::string_view text, std::size_t& offset) noexcept;

/// The offset of the code point that ends at `offset` (which is above 0).
std::size_t previous_offset(std::string_view text, std::size_t offset) noexcept;

void append_code_point(std::string& out, char32_t code_point);
std::size_t count_code_points(std::string_view text) noexcept;

/// The byte offset of the code point with this index, or the size if there are fewer.
std::size_t offset_of_code_point(std::string_view text, std::size_t index) noexcept;

/// The first occurrence of `needle` at or after `from`, or npos; linear in both sizes whatever they hold.
std::size_t find_text(std::string_view text, std::string_view needle, std::size_t from = 0) noexcept;

bool is_space(char32_t code_point) noexcept;
bool is_alphabetic(char32_t code_point) noexcept;
bool is_digit(char32_t code_point) noexcept;  ///< str.isdigit(): decimal digits, superscripts, circled digits
bool is_numeric(char32_t code_point) noexcept;  ///< categories Nd, Nl, No
bool is_lower(char32_t code_point) noexcept;
bool is_upper(char32_t code_point) noexcept;
bool is_title(char32_t code_point) noexcept;
bool is_printable(char32_t code_point) noexcept;
bool is_identifier_start(char32_t code_point) noexcept;
bool is_identifier_part(char32_t code_point) noexcept;

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(
    std::string_view text);  ///< str.title(): a capital after every character that has no case
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);

std::string_view strip_left(std::string_view text) noexcept;
std::string_view strip_right(std::string_view text) noexcept;
/// Strips the code points of `characters` from one or both ends.
std::string_view strip_characters(std::string_view text, std::string_view characters, bool left, bool right);

/// str.splitlines(): every line boundary that Python knows, the last empty line left out.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// repr() of a str: single quotes unless only single quotes occur inside, and escapes for what is not
/// printable.
std::string quote(std::string_view text);

}  // namespace quern::jinja
