// The C boundary: exceptions become statuses, option structs of any size become whole ones, handles become objects.
#pragma once

#include "call.hpp"

#include "quern/graph/error.hpp"
#include "quern.h"

#include <cstdint>
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace quern::c_api {

/// Sets what quern_last_error() answers on this thread; never throws.
void remember_error(std::string_view text) noexcept;

/// Runs the body of a C function. An Error gives its code and text; exhaustion and our own bugs give theirs.
template <Needs needs = Needs::work, typename Body>
quern_status guarded(const Body& body) noexcept {
  const Call call;
  try {
    Call::check(needs);
    body();
    return QUERN_OK;
  } catch (const Error& error) {
    remember_error(error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    remember_error("out of host memory");
    return QUERN_HOST_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember_error(error.what());
    return QUERN_INTERNAL;
  } catch (...) {
    remember_error("an unknown exception");
    return QUERN_INTERNAL;
  }
}

/// Throws Error(QUERN_INVALID_ARGUMENT) naming what must not be null.
inline void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(what, " is null"));
}

/// The caller's struct in today's size: members that it does not have are zero. A member that only a newer header
/// knows must be zero.
template <typename Struct>
Struct whole(const Struct* given, const char* name) {
  Struct result{};
  result.struct_size = sizeof(Struct);
  if (given == nullptr) return result;
  const std::uint64_t size = given->struct_size;
  if (size < sizeof(size)) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, ".struct_size is ", size, "; set it to sizeof(", name, ")"));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(&result, bytes, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(Struct))));
  constexpr std::uint64_t believable = 1 << 16;
  if (size > believable) throw Error(QUERN_INVALID_ARGUMENT, concat(name, ".struct_size is ", size));
  for (std::uint64_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) { throw Error(QUERN_UNSUPPORTED, concat(name, " sets a member that this version of the library does not know")); }
  }
  result.struct_size = sizeof(Struct);
  return result;
}

/// Element `index` of the caller's array, whose stride is the struct_size of its first element.
template <typename Struct>
Struct whole_at(const Struct* first, std::uint64_t index, const char* name) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(first) + index * first->struct_size;
  const auto* element = reinterpret_cast<const Struct*>(bytes);
  if (element->struct_size != first->struct_size) {
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(name, " ", index, ": struct_size is ", element->struct_size, " but the first has ", first->struct_size));
  }
  return whole(element, name);
}

/// Writes what the caller's struct has room for.
template <typename Struct>
void give(Struct* out, const Struct& filled, const char* name) {
  require(out, "out");
  const std::uint64_t size = out->struct_size;
  if (size < sizeof(size)) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, ".struct_size is ", size, "; set it to sizeof(", name, ")"));
  }
  std::memcpy(out, &filled, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(Struct))));
  out->struct_size = size;
}

/// (buffer, capacity, needed) of the header's conventions.
template <typename T>
void give_list(const T* data, std::uint64_t count, T* buffer, std::uint64_t capacity, std::uint64_t* needed) {
  if (needed != nullptr) *needed = count;
  if (buffer == nullptr && capacity == 0) {
    require(needed, "the pointer for the needed size");
    return;
  }
  require(buffer, "the buffer");
  if (capacity < count) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("the buffer has room for ", capacity, " but ", count, " are needed"));
  }
  if (count > 0) std::memcpy(buffer, data, static_cast<std::size_t>(count) * sizeof(T));
}

inline void check_flags(std::uint32_t flags, std::uint32_t known, const char* function) {
  if ((flags & ~known) != 0) throw Error(QUERN_INVALID_ARGUMENT, concat(function, ": unknown flag in ", flags));
}

inline std::string text_or_empty(const char* text) { return text == nullptr ? std::string{} : std::string(text); }

quern_text* make_text(std::string text);

}  // namespace quern::c_api
