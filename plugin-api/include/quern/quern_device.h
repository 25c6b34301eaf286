/* Devices, memory, queues and fences of the plugin ABI.
 *
 * Threads: plugin, device and memory functions may be called from any thread at once. One queue is used by one
 * thread at a time; the host sees to that.
 *
 * Without SYNCHRONOUS, calls on a queue are done in their order, later; [C31] has what lives until then. */
#ifndef QUERN_DEVICE_H
#define QUERN_DEVICE_H

#include "quern_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_plugin quern_plugin; /* made by create(), one per runtime; no state per library [C7] */
typedef struct quern_device quern_device;
typedef struct quern_buffer quern_buffer;
typedef struct quern_queue quern_queue;
typedef struct quern_fence quern_fence;

/* Device classes, best first: the order of ranking. */
enum { QUERN_DEVICE_DISCRETE = 1, QUERN_DEVICE_UNIFIED = 2, QUERN_DEVICE_INTEGRATED = 3, QUERN_DEVICE_CPU = 4,
       QUERN_DEVICE_SOFTWARE = 5, QUERN_DEVICE_OTHER = 6 };

/* Device capabilities. Under SYNCHRONOUS, submit returns when the run is done and the host supplies queues and
 * fences. Under HOST_MEMORY, bindings are host pointers and the host supplies buffers and copies. */
/* Experimental [C30]: QUERN_CAP_PROBE_NEEDS_CHILD, QUERN_CAP_UNLOADABLE, QUERN_CAP_COLLECTIVES, QUERN_CAP_INDIRECT_SPANS, QUERN_CAP_SNAPSHOTS. */
#define QUERN_CAP_SYNCHRONOUS (1ull << 0)
#define QUERN_CAP_HOST_MEMORY (1ull << 1)
#define QUERN_CAP_PROBE_NEEDS_CHILD (1ull << 2)
#define QUERN_CAP_UNLOADABLE (1ull << 3)
#define QUERN_CAP_COLLECTIVES (1ull << 4)
#define QUERN_CAP_INDIRECT_SPANS (1ull << 5)
#define QUERN_CAP_SNAPSHOTS (1ull << 6)

/* Strings live as long as the plugin handle. Making no context: calling this costs no device memory. */
typedef struct quern_device_info {
  quern_header header;
  uint32_t device_class;
  uint32_t vendor_id;    /* PCI vendor, 0 unknown */
  uint64_t caps;         /* QUERN_CAP_... */
  quern_string name;     /* "NVIDIA H100 PCIe", "Intel(R) Xeon(R) ..." */
  quern_string architecture; /* "sm_90", "x86-64 avx512 vnni" */
  quern_string driver_have;  /* "580.95.05", or empty */
  quern_string driver_need;
  quern_string pci_address;  /* "0000:01:00.0", or empty */
  uint8_t uuid[16];          /* zero: unknown; a MIG slice has its own */
  uint64_t memory_alignment; /* of every span, in bytes; a power of two */
  uint64_t max_allocation;   /* bytes, 0 unknown */
  uint32_t heap_count;
  uint32_t numa_node; /* QUERN_NONE unknown */
} quern_device_info;

/* What kind of number a memory figure is. Unknown is not zero. */
enum { QUERN_FIGURE_UNKNOWN = 0, QUERN_FIGURE_ESTIMATE = 1, QUERN_FIGURE_EXACT = 2 };
enum { QUERN_HEAP_HOST_VISIBLE = 1, QUERN_HEAP_DEVICE_LOCAL = 2, QUERN_HEAP_POLLABLE = 4 };

typedef struct quern_heap_info {
  quern_header header;
  uint32_t flags; /* QUERN_HEAP_... */
  uint32_t total_figure;
  uint32_t budget_figure;
  uint32_t used_figure;
  uint64_t total;  /* bytes */
  uint64_t budget; /* what this process may use now */
  uint64_t used;   /* by this process */
} quern_heap_info;

/* The result of a probe: it ran a small real kernel on each device and compared the result [C8]. */
typedef struct quern_probe_report {
  quern_header header;
  uint32_t usable;       /* devices that passed */
  uint32_t reason_count; /* how many there are; at most `reason_capacity` were written */
  quern_reason *reasons; /* the caller's; strings live as long as the plugin handle */
  uint64_t reason_capacity;
} quern_probe_report;

typedef struct quern_buffer_options {
  quern_header header;
  uint32_t heap;  /* index; 0 is the default heap */
  uint32_t usage; /* QUERN_USAGE_... */
} quern_buffer_options;
enum { QUERN_USAGE_WEIGHTS = 1, QUERN_USAGE_STATE = 2, QUERN_USAGE_SCRATCH = 4, QUERN_USAGE_STAGING = 8 };

/* A range of memory. Under QUERN_CAP_HOST_MEMORY `host` is set and `buffer` null, otherwise the reverse. */
typedef struct quern_span {
  quern_buffer *buffer;
  void *host;
  uint64_t offset; /* bytes from the start of `buffer`; 0 with `host` */
  uint64_t bytes;
} quern_span;

/* A point on the timeline of a fence. */
typedef struct quern_point {
  quern_fence *fence;
  uint64_t value;
} quern_point;

/* Experimental [C30]: quern_sync.wait. */
typedef struct quern_sync {
  quern_header header;
  quern_array wait;   /* quern_point: of this plugin and already enqueued, or signalled by the host */
  quern_array signal; /* quern_point */
} quern_sync;

/* Experimental [C30]: QUERN_QUEUE_TRANSFER. */
enum { QUERN_QUEUE_COMPUTE = 1, QUERN_QUEUE_TRANSFER = 2 };

/* Flags of fence_create. HOST_SIGNAL: only fence_signal advances it, so a wait may be enqueued before its signal. */
/* Experimental [C30]: QUERN_FENCE_HOST_SIGNAL. */
enum { QUERN_FENCE_HOST_SIGNAL = 1 };

/* Experimental [C30]: quern_fence_info.poll_word. */
typedef struct quern_fence_info {
  quern_header header;
  uint64_t value;            /* reached so far */
  const uint64_t *poll_word; /* grows to each value as it is reached; null: ask fence_query */
  uint32_t flags;            /* QUERN_FENCE_... as given */
  uint32_t reserved;
} quern_fence_info;

#ifdef __cplusplus
}
#endif
#endif
