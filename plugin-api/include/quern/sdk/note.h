/* The ELF note of a plugin in C: once, at file scope,
 *
 *   QUERN_PLUGIN_NOTE("mine", "1.0.0", QUERN_DEVICE_OTHER, 0, "libmine.so.1=libmine1");
 *
 * as entry.hpp has it for C++. Id and version have 1 to 31 bytes. The features (QUERN_CPU_...) are those that the code needs before any
 * dispatch; the dependencies ("soname=package;...", or "") are opened in probe().
 *
 * The record is packed: a note's parts follow one another at multiples of 4 bytes, and a plain struct would have 4 bytes of padding in
 * front of the quern_note, whose alignment is 8. C99 with the attributes of GCC and Clang. Convenience, not part of the ABI. */
#ifndef QUERN_SDK_NOTE_H
#define QUERN_SDK_NOTE_H

#include "quern/quern_abi.h"
#include "quern/quern_sanitizer.h"

#ifndef QUERN_HEADER_HASH /* of untagged headers, from the build */
#define QUERN_HEADER_HASH 0
#endif

/* Room for a text behind the note: a multiple of 4, and 4 at least, since C has no empty array. */
#define QUERN_NOTE_ROOM(text) ((sizeof(text) + 3) / 4 * 4)

#define QUERN_PLUGIN_NOTE(id_text, version_text, main_class, features, dependency_text)                                             \
  __attribute__((used, section(QUERN_NOTE_SECTION))) static const struct __attribute__((packed, aligned(4))) {                      \
    uint32_t name_size;                                                                                                             \
    uint32_t descriptor_size;                                                                                                       \
    uint32_t type;                                                                                                                  \
    char name[8];                                                                                                                   \
    quern_note note;                                                                                                                \
    char dependencies[QUERN_NOTE_ROOM(dependency_text)];                                                                            \
  } quern_plugin_note = {sizeof(QUERN_NOTE_NAME),                                                                                   \
                         sizeof(quern_note) + QUERN_NOTE_ROOM(dependency_text),                                                     \
                         QUERN_NOTE_TYPE,                                                                                           \
                         QUERN_NOTE_NAME,                                                                                           \
                         {QUERN_NOTE_MAGIC, sizeof(quern_note), 1u << QUERN_ABI_EPOCH, QUERN_ABI_MINOR, 0, main_class, features,    \
                          QUERN_HEADER_HASH, QUERN_SANITIZER, sizeof(dependency_text) - 1, id_text, version_text},                  \
                         dependency_text}

#endif
