// Errors of a plugin in C++: thrown inside as Failure, turned into a status and a filled quern_error at the C boundary.
//
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_GUARD_HPP
#define QUERN_SDK_GUARD_HPP

#include "quern/quern_abi.h"
#include "quern/quern_min_sizes.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace quern {
namespace sdk {

/// What a plugin throws. The text says what was asked, what was found and what to do, in lower case.
struct Failure : std::exception {
  Failure(quern_status status, std::string words, std::uint32_t contract_rule = 0)
      : code(status), text(std::move(words)), rule(contract_rule) {}
  const char* what() const noexcept override { return text.c_str(); }

  quern_status code;
  std::string text;
  std::uint32_t rule;  ///< number of the rule in CONTRACT.md, 0 none
  std::uint32_t domain = QUERN_DOMAIN_QUERN;
  std::int32_t native_code = 0;
  std::uint32_t flags = 0;
  std::uint64_t requested = 0;
  std::uint64_t available = 0;
  std::uint32_t heap = QUERN_NONE;
  std::uint32_t node = QUERN_NONE;
  std::uint32_t slot = QUERN_NONE;
};

/// Copies as much of `text` as fits, cut between code points. Writes no terminator.
inline void copy_text(std::string_view text, char* to, std::uint64_t capacity) noexcept {
  if (to == nullptr) return;
  std::size_t size = text.size();
  if (size > capacity) {
    size = static_cast<std::size_t>(capacity);
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0u) == 0x80u) --size;
  }
  if (size > 0) std::memcpy(to, text.data(), size);
}

/// Fills what lies inside the caller's struct_size; allocates nothing. Returns `code`.
inline quern_status set_error(quern_error* error, quern_status code, std::string_view text, std::uint32_t rule = 0) noexcept {
  if (error == nullptr || error->header.struct_size < QUERN_MIN_SIZE_quern_error) return code;
  error->code = code;
  error->domain = QUERN_DOMAIN_QUERN;
  error->native_code = 0;
  error->flags = 0;
  error->requested = 0;
  error->available = 0;
  error->heap = QUERN_NONE;
  error->node = QUERN_NONE;
  error->slot = QUERN_NONE;
  error->rule = rule;
  copy_text(text, error->text, error->text_capacity);
  error->text_size = text.size();
  return code;
}

inline quern_status set_error(quern_error* error, const Failure& failure) noexcept {
  set_error(error, failure.code, failure.text, failure.rule);
  if (error == nullptr || error->header.struct_size < QUERN_MIN_SIZE_quern_error) return failure.code;
  error->domain = failure.domain;
  error->native_code = failure.native_code;
  error->flags = failure.flags;
  error->requested = failure.requested;
  error->available = failure.available;
  error->heap = failure.heap;
  error->node = failure.node;
  error->slot = failure.slot;
  return failure.code;
}

/// The body of each C function: `return guarded(error, [&] { ... });`. The body returns nothing or a quern_status. No
/// exception leaves [C9].
template <class Body>
quern_status guarded(quern_error* error, Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return QUERN_OK;
    } else {
      return body();
    }
  } catch (const Failure& failure) { return set_error(error, failure); } catch (const std::bad_alloc&) {
    return set_error(error, QUERN_HOST_OUT_OF_MEMORY, "the plugin ran out of host memory");
  } catch (const std::exception& exception) { return set_error(error, QUERN_INTERNAL, exception.what()); } catch (...) {
    return set_error(error, QUERN_INTERNAL, "an exception of an unknown type in the plugin");
  }
}

/// Text pieces and numbers as one string: concat("needs ", 4, " bytes").
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

inline std::string_view view(const quern_string& text) noexcept {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, static_cast<std::size_t>(text.size));
}

inline quern_string text_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

}  // namespace sdk
}  // namespace quern

#endif
