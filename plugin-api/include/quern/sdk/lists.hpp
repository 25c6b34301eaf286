// Lists of the ABI: (data, count, stride) read by the stride that their writer gave [C2].
//
// Elements are returned as copies of our size, as read() does; a list never touches what lies beyond its writer's elements.
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_LISTS_HPP
#define QUERN_SDK_LISTS_HPP

#include "quern/sdk/structs.hpp"

namespace quern {
namespace sdk {

template <class T>
class List {
 public:
  /// Throws Failure(QUERN_INVALID_ARGUMENT) on null data, a stride below the 1.0 size or a size that overflows.
  List(const quern_array& array, const char* what)
      : data_(static_cast<const char*>(array.data)), count_(array.count), stride_(array.stride), what_(what) {
    if (count_ == 0) return;
    if (data_ == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, concat(what, ": ", count_, " elements at null"), 2);
    if (stride_ < StructTraits<T>::min_size) {
      throw Failure(QUERN_INVALID_ARGUMENT,
                    concat(what, ": the stride is ", stride_, ", an element has at least ", StructTraits<T>::min_size, " bytes"), 2);
    }
    if (StructTraits<T>::type != 0 && (stride_ % alignof(T) != 0 || reinterpret_cast<std::uintptr_t>(data_) % alignof(T) != 0)) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat(what, ": elements do not lie at multiples of ", alignof(T)), 2);
    }
    if (count_ > static_cast<std::uint64_t>(PTRDIFF_MAX) / stride_) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat(what, ": ", count_, " elements do not fit an address space"), 2);
    }
  }

  std::uint64_t size() const noexcept { return count_; }

  /// Element i as its writer knew it; the tail that it did not have is zero.
  T operator[](std::uint64_t i) const {
    const char* at = data_ + i * stride_;
    std::uint64_t size = stride_;
    if constexpr (StructTraits<T>::type != 0) {
      const T* element = reinterpret_cast<const T*>(at);
      check(element);
      if (element->header.struct_size > stride_) {
        throw Failure(QUERN_INVALID_ARGUMENT,
                      concat(what_, ": element ", i, " has struct_size ", element->header.struct_size, ", the stride is ", stride_), 2);
      }
      size = element->header.struct_size;
    }
    T copy = {};
    std::memcpy(static_cast<void*>(&copy), at, static_cast<std::size_t>(std::min<std::uint64_t>(size, sizeof(T))));
    return copy;
  }

  class Iterator {
   public:
    Iterator(const List* list, std::uint64_t index) : list_(list), index_(index) {}
    T operator*() const { return (*list_)[index_]; }
    Iterator& operator++() { return ++index_, *this; }
    bool operator!=(const Iterator& other) const { return index_ != other.index_; }

   private:
    const List* list_;
    std::uint64_t index_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, count_}; }

 private:
  const char* data_;
  std::uint64_t count_;
  std::uint64_t stride_;
  const char* what_;
};

/// The answers that support() fills: a plain pointer whose step is the struct_size of the first element as the host set it.
class Answers {
 public:
  Answers(quern_answer* data, std::uint64_t count) : data_(reinterpret_cast<char*>(data)) {
    if (count == 0) return;
    check(data);
    stride_ = data->header.struct_size;
    for (std::uint64_t i = 0; i < count; ++i) {
      check(at(i));
      if (at(i)->header.struct_size > stride_) {
        throw Failure(QUERN_INVALID_ARGUMENT,
                      concat("answers: element ", i, " has struct_size ", at(i)->header.struct_size, ", the first has ", stride_), 2);
      }
    }
  }

  void set(std::uint64_t i, const quern_answer& answer) const noexcept { write(at(i), answer); }

 private:
  quern_answer* at(std::uint64_t i) const noexcept { return reinterpret_cast<quern_answer*>(data_ + i * stride_); }

  char* data_;
  std::uint64_t stride_ = 0;
};

}  // namespace sdk
}  // namespace quern

#endif
