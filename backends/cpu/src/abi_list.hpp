// Reads the host's (data, count, stride) lists and headers: nothing is read beyond what the host says is there.
#pragma once

#include "error.hpp"

#include "quern/quern_abi.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace quern::cpu {

constexpr std::uint64_t max_list = 1u << 24;  // elements of any one list; refused above, so that memory stays bounded

/// Throws where the struct is shorter than in release 1.0, is of another type, or has an extension that must be understood.
inline void check_header(const quern_header& header, std::uint32_t type, std::uint32_t min_size, const char* name) {
  if (header.struct_size < min_size)
    throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": struct_size is ", header.struct_size, ", the smallest is ", min_size));
  if (header.struct_type != type)
    throw Error((header.struct_type & QUERN_MUST_UNDERSTAND) != 0 ? QUERN_UNSUPPORTED : QUERN_INVALID_ARGUMENT,
                concat(name, ": struct_type is ", header.struct_type, ", expected ", type));
  int depth = 0;
  for (const void* next = header.next; next != nullptr; ++depth) {
    const auto* extension = static_cast<const quern_header*>(next);
    if (depth == 64) throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": more than 64 extensions, or a ring of them"));
    if ((extension->struct_type & QUERN_MUST_UNDERSTAND) != 0)
      throw Error(QUERN_UNSUPPORTED, concat(name, ": extension type ", extension->struct_type & ~QUERN_MUST_UNDERSTAND,
                                            " must be understood and is not known to this plugin"));
    next = extension->next;
  }
}

/// A list of plain elements (min_size bytes at least). Copies each element out, so that alignment of odd strides does not matter.
template <typename T>
class List {
 public:
  List(const quern_array& array, std::uint64_t min_size, const char* name) : array_(array) {
    if (array.count == 0) return;
    if (array.data == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": ", array.count, " elements at a null pointer"));
    if (array.count > max_list)
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": ", array.count, " elements, at most ", max_list, " are taken"));
    if (array.stride < min_size || array.stride > (1u << 20))
      throw Error(QUERN_INVALID_ARGUMENT, concat(name, ": stride is ", array.stride, ", the smallest is ", min_size));
  }
  std::uint64_t size() const noexcept { return array_.count; }
  const void* address(std::uint64_t i) const noexcept { return static_cast<const char*>(array_.data) + i * array_.stride; }
  T operator[](std::uint64_t i) const noexcept {
    T element{};
    const std::uint64_t bytes = array_.stride < sizeof(T) ? array_.stride : sizeof(T);
    std::memcpy(static_cast<void*>(&element), address(i), bytes);
    return element;
  }

 private:
  quern_array array_;
};

/// Copies a host's struct, as far as both know it.
template <typename T>
T read_struct(const void* from, std::uint32_t type, std::uint32_t min_size, const char* name) {
  if (from == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is null"));
  quern_header header;
  std::memcpy(&header, from, sizeof(header));
  check_header(header, type, min_size, name);
  T out{};
  std::memcpy(static_cast<void*>(&out), from, header.struct_size < sizeof(T) ? header.struct_size : sizeof(T));
  return out;
}

/// Copies `filled` into the caller's out-struct as far as it has room, keeping its `next`, and sets struct_size to what was written.
template <typename T>
void write_struct(T* to, T filled, std::uint32_t type, std::uint32_t min_size, const char* name) {
  if (to == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(name, " is null"));
  check_header(to->header, type, min_size, name);
  const std::uint32_t size = to->header.struct_size < sizeof(T) ? to->header.struct_size : static_cast<std::uint32_t>(sizeof(T));
  filled.header = {size, type, to->header.next};
  std::memcpy(static_cast<void*>(to), &filled, size);
}

inline std::string read_string(const quern_string& text, std::uint64_t limit = 256) {
  if (text.data == nullptr) return {};
  return std::string(text.data, text.size < limit ? text.size : limit);
}

}  // namespace quern::cpu
