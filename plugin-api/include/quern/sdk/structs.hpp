// Reading and writing the structs of the ABI by the size that the other side gave them [C2].
//
// read() returns a whole struct of our size: what the writer did not have reads as zero, which is the neutral value of every
// member appended after 1.0. So the code behind it needs no size checks.
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_STRUCTS_HPP
#define QUERN_SDK_STRUCTS_HPP

#include "quern/quern_min_sizes.h"
#include "quern/quern_plugin_api.h"
#include "quern/quern_formats.h"
#include "quern/sdk/guard.hpp"

#include <algorithm>
#include <cstddef>

namespace quern {
namespace sdk {

/// type: its QUERN_TYPE_ or 0 for a struct without header; min_size: the least size or stride that is accepted.
template <class T>
struct StructTraits {
  static constexpr std::uint32_t type = 0;
  static constexpr std::uint32_t min_size = sizeof(T);
  static constexpr const char* name = "element";
};
#define QUERN_SDK_STRUCT(struct_name, struct_type) \
  template <> \
  struct StructTraits<struct_name> { \
    static constexpr std::uint32_t type = struct_type; \
    static constexpr std::uint32_t min_size = QUERN_MIN_SIZE_##struct_name; \
    static constexpr const char* name = #struct_name; \
  };
QUERN_SDK_STRUCT(quern_error, QUERN_TYPE_ERROR)
QUERN_SDK_STRUCT(quern_host, QUERN_TYPE_HOST)
QUERN_SDK_STRUCT(quern_query, QUERN_TYPE_QUERY)
QUERN_SDK_STRUCT(quern_plugin_api, QUERN_TYPE_PLUGIN_API)
QUERN_SDK_STRUCT(quern_device_info, QUERN_TYPE_DEVICE_INFO)
QUERN_SDK_STRUCT(quern_heap_info, QUERN_TYPE_HEAP_INFO)
QUERN_SDK_STRUCT(quern_reason, QUERN_TYPE_REASON)
QUERN_SDK_STRUCT(quern_probe_report, QUERN_TYPE_PROBE_REPORT)
QUERN_SDK_STRUCT(quern_value, QUERN_TYPE_VALUE)
QUERN_SDK_STRUCT(quern_node, QUERN_TYPE_NODE)
QUERN_SDK_STRUCT(quern_graph, QUERN_TYPE_GRAPH)
QUERN_SDK_STRUCT(quern_answer, QUERN_TYPE_ANSWER)
QUERN_SDK_STRUCT(quern_compile_options, QUERN_TYPE_COMPILE_OPTIONS)
QUERN_SDK_STRUCT(quern_plan_info, QUERN_TYPE_PLAN_INFO)
QUERN_SDK_STRUCT(quern_instance_options, QUERN_TYPE_INSTANCE_OPTIONS)
QUERN_SDK_STRUCT(quern_instance_info, QUERN_TYPE_INSTANCE_INFO)
QUERN_SDK_STRUCT(quern_binding, QUERN_TYPE_BINDING)
QUERN_SDK_STRUCT(quern_prepare_entry, QUERN_TYPE_PREPARE_ENTRY)
QUERN_SDK_STRUCT(quern_run, QUERN_TYPE_RUN)
QUERN_SDK_STRUCT(quern_run_status, QUERN_TYPE_RUN_STATUS)
QUERN_SDK_STRUCT(quern_sync, QUERN_TYPE_SYNC)
QUERN_SDK_STRUCT(quern_weight_item, QUERN_TYPE_WEIGHT_ITEM)
QUERN_SDK_STRUCT(quern_counters, QUERN_TYPE_COUNTERS)
QUERN_SDK_STRUCT(quern_communicator, QUERN_TYPE_COMMUNICATOR)
QUERN_SDK_STRUCT(quern_buffer_options, QUERN_TYPE_BUFFER_OPTIONS)
QUERN_SDK_STRUCT(quern_support_options, QUERN_TYPE_SUPPORT_OPTIONS)
QUERN_SDK_STRUCT(quern_kernel_info, QUERN_TYPE_KERNEL_INFO)
QUERN_SDK_STRUCT(quern_alone_info, QUERN_TYPE_ALONE_INFO)
QUERN_SDK_STRUCT(quern_schedule_info, QUERN_TYPE_SCHEDULE_INFO)
QUERN_SDK_STRUCT(quern_format, QUERN_TYPE_FORMAT)
QUERN_SDK_STRUCT(quern_code_table, QUERN_TYPE_CODE_TABLE)
QUERN_SDK_STRUCT(quern_fence_info, QUERN_TYPE_FENCE_INFO)
QUERN_SDK_STRUCT(quern_kv_page_query, QUERN_TYPE_KV_PAGE_QUERY)
QUERN_SDK_STRUCT(quern_kv_page_info, QUERN_TYPE_KV_PAGE_INFO)
QUERN_SDK_STRUCT(quern_attribute, 0)
QUERN_SDK_STRUCT(quern_symbol, 0)
QUERN_SDK_STRUCT(quern_bound, 0)
QUERN_SDK_STRUCT(quern_patch, 0)
QUERN_SDK_STRUCT(quern_span, 0)
QUERN_SDK_STRUCT(quern_point, 0)
QUERN_SDK_STRUCT(quern_weight_source, 0)
#undef QUERN_SDK_STRUCT

/// Whether the writer of *s had this member: QUERN_SDK_HAS(options, progress).
#define QUERN_SDK_HAS(s, member) ((s)->header.struct_size >= offsetof(std::decay_t<decltype(*(s))>, member) + sizeof((s)->member))

/// Refuses a chained struct that its writer marks as one not to be skipped: this SDK knows none.
inline void check_chain(const void* next, const char* name) {
  int length = 0;
  for (; next != nullptr; next = static_cast<const quern_header*>(next)->next) {
    const std::uint32_t type = static_cast<const quern_header*>(next)->struct_type;
    if ((type & QUERN_MUST_UNDERSTAND) != 0) {
      throw Failure(
          QUERN_UNSUPPORTED,
          concat(name, " carries a struct of type ", type & ~QUERN_MUST_UNDERSTAND, " that must be understood and is not known here"), 2);
    }
    if (++length > 64) throw Failure(QUERN_INVALID_ARGUMENT, concat(name, ": more than 64 chained structs"), 2);
  }
}

/// Checks the header of a struct that the other side wrote: not null, its type, at least its 1.0 size.
template <class T>
void check(const T* s) {
  using Traits = StructTraits<T>;
  static_assert(Traits::type != 0, "this struct has no header");
  if (s == nullptr) throw Failure(QUERN_INVALID_ARGUMENT, concat(Traits::name, " is null"), 2);
  if (s->header.struct_size < Traits::min_size) {
    throw Failure(QUERN_INVALID_ARGUMENT,
                  concat(Traits::name, ": struct_size is ", s->header.struct_size, ", the least is ", Traits::min_size), 2);
  }
  if ((s->header.struct_type & ~QUERN_MUST_UNDERSTAND) != Traits::type) {
    throw Failure(QUERN_INVALID_ARGUMENT, concat(Traits::name, ": struct_type is ", s->header.struct_type, ", not ", Traits::type), 2);
  }
  check_chain(s->header.next, Traits::name);
}

/// A copy in our size of a struct that the other side wrote.
template <class T>
T read(const T* s) {
  check(s);
  T copy = {};
  std::memcpy(static_cast<void*>(&copy), s, std::min<std::size_t>(s->header.struct_size, sizeof(T)));
  return copy;
}

/// Fills an out-struct that was checked: never more than its struct_size, which then says what was filled. Its `next`
/// stays the caller's.
template <class T>
void write(T* out, const T& value) noexcept {
  const std::size_t size = std::min<std::size_t>(out->header.struct_size, sizeof(T));
  std::memcpy(reinterpret_cast<char*>(out) + sizeof(quern_header), reinterpret_cast<const char*>(&value) + sizeof(quern_header),
              size - sizeof(quern_header));
  out->header.struct_size = static_cast<std::uint32_t>(size);
}

/// A zeroed struct with its header set.
template <class T>
T made() {
  T s = {};
  s.header.struct_size = sizeof(T);
  s.header.struct_type = StructTraits<T>::type;
  return s;
}

/// Refuses flag bits that are not known [C3].
inline void check_flags(std::uint64_t flags, std::uint64_t known, const char* what) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (((flags & ~known) >> bit & 1u) != 0) { throw Failure(QUERN_UNSUPPORTED, concat(what, ": bit ", bit, " is not known here"), 3); }
  }
}

}  // namespace sdk
}  // namespace quern

#endif
