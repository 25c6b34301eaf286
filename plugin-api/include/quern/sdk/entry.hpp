// The ELF note and the one exported function of a plugin.
//
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_ENTRY_HPP
#define QUERN_SDK_ENTRY_HPP

#include "quern/sdk/structs.hpp"
#include "quern/quern_sanitizer.h"

#include <cstdio>

#include <unistd.h>

/// Hash of untagged headers, from the build (the CMake package sets it). Without one the plugin counts as built from
/// tagged headers and is negotiated by minor.
#ifndef QUERN_HEADER_HASH
#define QUERN_HEADER_HASH 0
#endif

namespace quern {
namespace sdk {

inline constexpr std::uint32_t built_with_sanitizer = QUERN_SANITIZER;
/// An ELF note as it lies in the file: Elf64_Nhdr, the name, the descriptor, all at multiples of 4 bytes.
template <std::size_t DependencyRoom>
struct __attribute__((packed, aligned(4))) NoteRecord {
  std::uint32_t name_size;
  std::uint32_t descriptor_size;
  std::uint32_t type;
  char name[8];
  quern_note note;
  char dependencies[DependencyRoom];
};

template <>
struct __attribute__((packed, aligned(4))) NoteRecord<0> {
  std::uint32_t name_size;
  std::uint32_t descriptor_size;
  std::uint32_t type;
  char name[8];
  quern_note note;
};

constexpr std::size_t note_room(std::size_t text_size) { return (text_size + 3) / 4 * 4; }

template <std::size_t IdSize, std::size_t VersionSize, std::size_t DependencySize>
constexpr NoteRecord<note_room(DependencySize - 1)> make_note(const char (&id)[IdSize], const char (&version)[VersionSize],
                                                              std::uint32_t device_class, std::uint64_t cpu_features,
                                                              [[maybe_unused]] const char (&dependencies)[DependencySize]) {
  static_assert(IdSize > 1 && IdSize <= sizeof(quern_note::id), "a plugin id has 1 to 31 bytes");
  static_assert(VersionSize > 1 && VersionSize <= sizeof(quern_note::version), "a plugin version has 1 to 31 bytes");
  NoteRecord<note_room(DependencySize - 1)> record = {};
  record.name_size = sizeof(QUERN_NOTE_NAME);
  record.descriptor_size = static_cast<std::uint32_t>(sizeof(quern_note) + DependencySize - 1);
  record.type = QUERN_NOTE_TYPE;
  for (std::size_t i = 0; i < sizeof(QUERN_NOTE_NAME); ++i) record.name[i] = QUERN_NOTE_NAME[i];
  quern_note note = {};
  note.magic = QUERN_NOTE_MAGIC;
  note.note_size = sizeof(quern_note);
  note.epochs = 1u << QUERN_ABI_EPOCH;
  note.abi_minor = QUERN_ABI_MINOR;
  note.min_host_minor = 0;
  note.device_class = device_class;
  note.cpu_features = cpu_features;
  note.header_hash = QUERN_HEADER_HASH;
  note.sanitizer = built_with_sanitizer;
  note.dependencies_size = DependencySize - 1;
  for (std::size_t i = 0; i < IdSize; ++i) note.id[i] = id[i];
  for (std::size_t i = 0; i < VersionSize; ++i) note.version[i] = version[i];
  record.note = note;
  if constexpr (DependencySize > 1) {
    for (std::size_t i = 0; i + 1 < DependencySize; ++i) record.dependencies[i] = dependencies[i];
  }
  return record;
}

/// Once, at namespace scope: QUERN_PLUGIN_NOTE("cpu", "1.0.0", QUERN_DEVICE_CPU, 0, "libopenblas.so.0=libopenblas0"). The
/// features are those that the code needs before any dispatch; the dependencies are opened in probe().
#define QUERN_PLUGIN_NOTE(id, version, device_class, features, dependencies) \
  extern "C" __attribute__((used, section(QUERN_NOTE_SECTION))) constexpr auto quern_plugin_note = \
      ::quern::sdk::make_note(id, version, device_class, features, dependencies)

/// An empty table of this ABI: the plugin sets id, version, build and its functions.
inline quern_plugin_api make_api() noexcept {
  quern_plugin_api api = made<quern_plugin_api>();
  api.abi_minor = QUERN_ABI_MINOR;
  api.opset_version = QUERN_OPSET_VERSION;
  api.format_table_version = QUERN_FORMAT_TABLE_VERSION;
  return api;
}

/// Answers the host's question: negotiates the minor and fills *out up to the host's struct_size. Pure: it allocates
/// nothing and keeps nothing [C1].
inline quern_status answer_query(const quern_query* query, quern_plugin_api* out, quern_error* error,
                                 const quern_plugin_api& mine) noexcept {
  if (query == nullptr || query->header.struct_size < QUERN_MIN_SIZE_quern_query || query->header.struct_type != QUERN_TYPE_QUERY) {
    return set_error(error, QUERN_INVALID_ARGUMENT, "quern_query is null, too small or of another type", 2);
  }
  if (out == nullptr || out->header.struct_size < QUERN_MIN_SIZE_quern_plugin_api || out->header.struct_type != QUERN_TYPE_PLUGIN_API) {
    return set_error(error, QUERN_INVALID_ARGUMENT, "quern_plugin_api is null, too small or of another type", 2);
  }
  if (query->abi_minor_min > QUERN_ABI_MINOR) {
    char text[160];
    std::snprintf(text, sizeof text, "the host needs plugin ABI %u.%u or newer, this plugin speaks %u.%u", QUERN_ABI_EPOCH,
                  query->abi_minor_min, QUERN_ABI_EPOCH, QUERN_ABI_MINOR);
    return set_error(error, QUERN_VERSION, text, 25);
  }
  quern_plugin_api table = mine;
  table.abi_minor = std::min<std::uint32_t>(query->abi_minor, QUERN_ABI_MINOR);
  write(out, table);
  return QUERN_OK;
}

/// Once, at namespace scope, with a table that outlives the library: QUERN_PLUGIN_ENTRY(my_table()).
#define QUERN_PLUGIN_ENTRY(table) \
  extern "C" __attribute__((visibility("default"))) quern_status quern_plugin_query_v1(const quern_query* query, quern_plugin_api* out, \
                                                                                       quern_error* error) { \
    return ::quern::sdk::answer_query(query, out, error, table); \
  }

/// The process that made a handle. After a fork only destroy works [C27].
class Process {
 public:
  bool is_this_one() const noexcept { return getpid() == made_in_; }
  void check() const {
    if (!is_this_one()) {
      throw Failure(QUERN_FORKED, "called after fork: only destroy works there; create the plugin again in the child", 27);
    }
  }

 private:
  pid_t made_in_ = getpid();
};

}  // namespace sdk
}  // namespace quern

#endif
