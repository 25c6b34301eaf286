/* The plugin ABI of Quern: scalars, errors, the host's services, negotiation.
 *
 * Start here, then quern_device.h (devices, memory, queues), quern_graph.h (what is asked), quern_plan.h (how it
 * runs), and quern_plugin_api.h (the table that a plugin fills). The numbered rules are in CONTRACT.md; [C12]
 * in a comment names one.
 *
 * Conventions, for every struct here:
 *   - 64-bit little-endian machines; fixed-width integers only; named, zeroed padding.
 *   - The first member is a quern_header. Structs grow at the end only. A reader accepts any struct_size at or
 *     above the 1.0 size, reads only members inside it, and refuses an unknown flag or `uses` bit [C2][C3].
 *   - A list is (data, count, stride), so that its elements may grow too. Where a call gives the callee a plain pointer
 *     to fill (answers, reasons), the step is the struct_size that the caller set in the first element [C2].
 *   - Strings are UTF-8 with a length; they need no terminator. Nothing is freed by the side that did not make it. */
#ifndef QUERN_ABI_H
#define QUERN_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "quern_dtypes.h"
#include "quern_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_ABI_EPOCH 1u /* in the name of the entry; another epoch is another symbol */
#define QUERN_ABI_MINOR 2u /* appended functions and fields */
#define QUERN_ABI_MINOR_SUPPORTED 2u /* a host accepts plugins down to this many minors behind its own */
#define QUERN_PLAN_CACHE_VERSION 1u
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient)
#include "ops.def" /* for QUERN_OPSET_VERSION; QUERN_FORMAT_TABLE_VERSION is in quern_dtypes.h */
#undef QUERN_OP

/* Experimental [C30]: QUERN_MUST_UNDERSTAND. */
/* A set bit means: a reader that does not know this struct type answers QUERN_UNSUPPORTED instead of skipping it. */
#define QUERN_MUST_UNDERSTAND 0x80000000u

typedef struct quern_header {
  uint32_t struct_size; /* bytes of the whole struct as the writer of it knows it; in an out-struct, what may be written */
  uint32_t struct_type; /* QUERN_TYPE_...; bit 31 is QUERN_MUST_UNDERSTAND */
  const void *next;     /* a further struct with a quern_header, or null */
} quern_header;

typedef struct quern_array {
  const void *data;
  uint64_t count;
  uint64_t stride; /* bytes from one element to the next */
} quern_array;

typedef struct quern_string {
  const char *data;
  uint64_t size; /* bytes */
} quern_string;

/* Struct types. Never renumbered. */
enum {
  QUERN_TYPE_ERROR = 1,
  QUERN_TYPE_HOST = 2,
  QUERN_TYPE_QUERY = 3,
  QUERN_TYPE_PLUGIN_API = 4,
  QUERN_TYPE_DEVICE_INFO = 5,
  QUERN_TYPE_HEAP_INFO = 6,
  QUERN_TYPE_REASON = 7,
  QUERN_TYPE_PROBE_REPORT = 8,
  QUERN_TYPE_VALUE = 9,
  QUERN_TYPE_NODE = 10,
  QUERN_TYPE_GRAPH = 11,
  QUERN_TYPE_ANSWER = 12,
  QUERN_TYPE_COMPILE_OPTIONS = 13,
  QUERN_TYPE_PLAN_INFO = 14,
  QUERN_TYPE_INSTANCE_OPTIONS = 15,
  QUERN_TYPE_INSTANCE_INFO = 16,
  QUERN_TYPE_BINDING = 17,
  QUERN_TYPE_PREPARE_ENTRY = 18,
  QUERN_TYPE_RUN = 19,
  QUERN_TYPE_RUN_STATUS = 20,
  QUERN_TYPE_SYNC = 21,
  QUERN_TYPE_WEIGHT_ITEM = 22,
  QUERN_TYPE_COUNTERS = 23,
  QUERN_TYPE_COMMUNICATOR = 24,
  QUERN_TYPE_BUFFER_OPTIONS = 25,
  QUERN_TYPE_SUPPORT_OPTIONS = 26,
  QUERN_TYPE_KERNEL_INFO = 27,
  QUERN_TYPE_FORMAT = 28,
  QUERN_TYPE_FENCE_INFO = 29,
  QUERN_TYPE_KV_PAGE_QUERY = 30,
  QUERN_TYPE_KV_PAGE_INFO = 31,
  QUERN_TYPE_ALONE_INFO = 32,
  QUERN_TYPE_SCHEDULE_INFO = 33,
  QUERN_TYPE_CODE_TABLE = 34
};

enum { QUERN_DOMAIN_QUERN = 0, QUERN_DOMAIN_OS = 1, QUERN_DOMAIN_CUDA = 2, QUERN_DOMAIN_VULKAN = 3, QUERN_DOMAIN_NCCL = 4 };
/* Experimental [C30]: QUERN_ERROR_RETRYABLE, QUERN_ERROR_STICKY, QUERN_ERROR_DEVICE_LOST. */
enum { QUERN_ERROR_RETRYABLE = 1, QUERN_ERROR_STICKY = 2, QUERN_ERROR_DEVICE_LOST = 4 };

#define QUERN_NONE 0xffffffffu /* "no value", "no node", "no slot", "no heap" */

/* Owned by the caller. The callee writes `text` (never more than text_capacity, cut at a code point) and sets
 * text_size to the bytes that the whole text has. May be null in every call. */
typedef struct quern_error {
  quern_header header;
  quern_status code;
  uint32_t domain;
  int32_t native_code; /* errno, CUresult, VkResult, ... of the domain */
  uint32_t flags;      /* QUERN_ERROR_... */
  uint64_t requested;  /* QUERN_OUT_OF_MEMORY: bytes asked for */
  uint64_t available;  /* and bytes that were to be had */
  uint32_t heap;       /* QUERN_NONE where it does not apply, as the next three */
  uint32_t node;
  uint32_t slot;
  uint32_t rule;       /* number of the rule in CONTRACT.md that was broken, 0 none */
  char *text;
  uint64_t text_capacity;
  uint64_t text_size;
} quern_error;

/* One reason for a "no", in words for the user. */
typedef struct quern_reason {
  quern_header header;
  quern_status code;
  uint32_t reserved;
  quern_string text;    /* "needs the driver library libcuda.so.1, which is not installed" */
  quern_string missing; /* "libcuda.so.1", or empty */
  quern_string remedy;  /* what to type or install, or empty */
} quern_reason;

enum { QUERN_LOG_TRACE = 0, QUERN_LOG_DEBUG = 1, QUERN_LOG_INFO = 2, QUERN_LOG_WARN = 3, QUERN_LOG_ERROR = 4 };

/* What the host gives. Valid from create() to the return of destroy(). Every function may be called from any
 * thread; none may be called again from inside itself. */
typedef struct quern_host {
  quern_header header;
  uint32_t abi_minor;
  uint32_t reserved;
  void *context; /* first argument of the functions below */
  void (*log)(void *context, uint32_t level, quern_string component, quern_string text);
  /* Null on exhaustion, never an exception. alignment is a power of two. tag names the use, for statistics. */
  void *(*allocate)(void *context, uint64_t bytes, uint64_t alignment, const char *tag);
  void (*release)(void *context, void *memory, uint64_t bytes, uint64_t alignment);
  /* An option of the user ("force_kernel", "deterministic", ...). Returns its length and writes at most capacity
   * bytes; UINT64_MAX: not set. The plugin never calls getenv [C9]. */
  uint64_t (*option)(void *context, const char *key, char *value, uint64_t capacity);
  uint32_t thread_count; /* threads that the plugin may use, the submitting one included; >= 1 */
  uint32_t reserved2;
  quern_array affinity;        /* uint32_t processor numbers for those threads; empty: the plugin does not pin */
  quern_string cache_directory; /* empty: write nothing to disk */
} quern_host;

/* What the host says of itself before anything else. */
typedef struct quern_query {
  quern_header header;
  uint32_t abi_minor;     /* the newest that it speaks */
  uint32_t abi_minor_min; /* the oldest that it accepts */
  uint64_t header_hash;   /* of untagged headers; 0 for a tagged build */
} quern_query;

struct quern_plugin_api; /* quern_plugin_api.h */

/* The only exported symbol of a plugin [C1]. Pure and repeatable: no thread, no driver, no environment, no
 * allocation. Fills *out up to out->header.struct_size and sets it to what it filled. */
typedef quern_status (*quern_plugin_query_fn)(const quern_query *query, struct quern_plugin_api *out, quern_error *error);
#define QUERN_PLUGIN_QUERY_NAME "quern_plugin_query_v1"

/* The ELF note that each plugin carries: section ".note.quern", note name "Quern", type 1, this descriptor, then
 * `dependencies_size` bytes of dependency text. The host reads it from the file and runs no code of a plugin whose note does
 * not pass [C5]. */
#define QUERN_NOTE_SECTION ".note.quern"
#define QUERN_NOTE_NAME "Quern"
#define QUERN_NOTE_TYPE 1u
#define QUERN_NOTE_MAGIC 0x314e5251u /* "QRN1" */

typedef struct quern_note {
  uint32_t magic;
  uint32_t note_size;      /* bytes of this struct; grows at the end */
  uint32_t epochs;         /* bit e: an entry for epoch e is exported */
  uint32_t abi_minor;      /* of the headers it was built from */
  uint32_t min_host_minor; /* it needs at least this host */
  uint32_t device_class;   /* QUERN_DEVICE_..., the kind it mostly drives */
  uint64_t cpu_features;   /* QUERN_CPU_... bits that its code needs before any dispatch */
  uint64_t header_hash;    /* 0: built from tagged headers */
  uint32_t sanitizer;      /* 0 none, 1 address, 2 thread: must equal the host's */
  uint32_t dependencies_size; /* bytes of text behind the struct: "soname=package;..." opened lazily in probe */
  char id[32];             /* "cpu", "cuda": lower case, zero-terminated */
  char version[32];        /* of the plugin, zero-terminated */
} quern_note;

/* x86-64 feature bits in quern_note.cpu_features. */
#define QUERN_CPU_AVX2 (1ull << 0)
#define QUERN_CPU_FMA (1ull << 1)
#define QUERN_CPU_F16C (1ull << 2)
#define QUERN_CPU_AVX512 (1ull << 3) /* F, BW, DQ, VL together */
#define QUERN_CPU_AVX512_VNNI (1ull << 4)
#define QUERN_CPU_AVX512_BF16 (1ull << 5)
#define QUERN_CPU_AMX (1ull << 6)

#ifdef __cplusplus
}
#endif
#endif
