/* What the files of this example share: its handles, and the few helpers that each function of the table begins with. */
#ifndef C99_PLUGIN_H
#define C99_PLUGIN_H

#include "quern/quern_min_sizes.h"
#include "quern/quern_ops.h"
#include "quern/quern_plugin_api.h"

#include <pthread.h>
#include <sys/types.h>

enum { alignment = 64, ring_size = 96, most_points = 8, most_failures = 64, most_inputs = 4, patch_room = 64 << 10 };

struct quern_plugin {
  quern_host host;
  pid_t process; /* that made it: in a child after fork only destroy works [C27] */
};

struct quern_device {
  quern_plugin *plugin;
  pthread_mutex_t lock; /* of all below, of its queues, fences and buffers */
  pthread_cond_t changed;
  uint64_t total, limit, used;
  uint32_t children; /* buffers, plans, queues and fences: they go before the device does */
  quern_queue *queues;
};

/* The host has this handle alone: it cannot reach the memory, and names places by offsets. */
struct quern_buffer {
  quern_device *device;
  uint64_t bytes;
  uint32_t owners; /* the host, and each instance that is bound to it */
  unsigned char *memory;
};

struct quern_fence {
  quern_device *device;
  uint32_t flags;
  uint64_t value, promised;        /* reached; enqueued */
  uint64_t failed[most_failures]; /* points whose work failed, the last ones */
  uint32_t failures;
};

typedef struct {
  quern_buffer *buffer;
  uint64_t offset;
} place;

typedef enum { JOB_NOTHING, JOB_UPLOAD, JOB_DOWNLOAD, JOB_COPY, JOB_RUN } job_kind;
typedef struct {
  job_kind kind;
  quern_point waits[most_points], signals[most_points];
  uint32_t wait_count, signal_count;
  place to, from; /* of copies */
  const void *host_from;
  void *host_to;
  uint64_t bytes;
  quern_instance *instance; /* of runs; what else a run has lies in the instance */
  uint32_t behind; /* 1: a run of the same submit as the one before, which must not have failed */
} job;

struct quern_queue {
  quern_device *device;
  quern_queue *next;
  pthread_t thread;
  int stop;
  uint64_t head, tail; /* jobs head .. tail - 1 are to be done */
  job ring[ring_size];
};

typedef struct {
  uint32_t op, output, inputs[2], input_count;
  float alpha;        /* of add */
  uint32_t predicate; /* a value that says whether to write: one number, or one a row; QUERN_NONE: always */
} step;

/* A copy of the graph: the host's lists live during the call alone. */
struct quern_plan {
  quern_device *device;
  uint32_t value_count, symbol_count, step_count, instances;
  quern_value *values;
  quern_symbol *symbols;
  step *steps;
  quern_kernel_info *kernels;
};

struct quern_instance {
  quern_plan *plan;
  int64_t *upper, *now;     /* of each symbol: its bound here, and in the run in flight */
  uint64_t *scratch_offset; /* of internal values */
  uint64_t scratch_bytes;
  place *places; /* of each value; null until it is prepared */
  uint32_t in_flight;
  int cancel; /* set by any thread, read by the queue's */
  quern_run_status *status; /* of the run in flight, as the next three */
  uint32_t status_size;
  uint32_t patch_count;
  uint64_t patch_bytes;
  quern_patch *patches; /* room for patch_room bytes of data, behind as many patches */
  unsigned char *patch_data;
  quern_counters counters;
};

/* Fills *error, which may be null, and returns `code`. Messages are lower case, and say what was asked and what was found. */
quern_status fail(quern_error *error, quern_status code, uint32_t rule, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Reads a struct of the other side by the size that it gave: what it did not have is zero, which is neutral [C2]. */
quern_status read_struct(void *copy, uint32_t size, const void *from, uint32_t least, uint32_t type, const char *name, quern_error *error);
/* Fills an out-struct behind its header, no more than the caller has. */
void write_struct(void *out, const void *value, uint32_t size);
quern_status check_list(const quern_array *list, uint64_t least, const char *name, quern_error *error);
const void *element(const quern_array *list, uint64_t i);

#define READ(copy, from, type, enumerator, error) \
  read_struct(&(copy), sizeof(copy), from, QUERN_MIN_SIZE_##type, enumerator, #type, error)
#define TRY(call)                       \
  do {                                  \
    const quern_status tried = (call);  \
    if (tried != QUERN_OK) return tried; \
  } while (0)

/* Refuses a null handle, and one of another process. */
quern_status alive(const quern_plugin *plugin, quern_error *error);
quern_status check_device(const quern_device *device, quern_error *error);
void *take(quern_plugin *plugin, uint64_t bytes, const char *tag); /* zeros, or null */
void give(quern_plugin *plugin, void *memory, uint64_t bytes);
quern_status no_memory(quern_error *error, const char *what);

/* Where a span of this device lies. */
quern_status locate(quern_device *device, const quern_span *span, uint64_t bytes, place *out, quern_error *error);
unsigned char *address(place at);
void release_buffer(quern_buffer *buffer); /* the device is locked */

/* queue.c. Under the lock of the device: room for so many jobs, then each of them, then `commit` for all. */
quern_status reserve_jobs(quern_queue *queue, quern_device *device, uint64_t count, quern_error *error);
quern_status fill_job(quern_queue *queue, uint64_t which, job_kind kind, const quern_sync *sync, quern_error *error);
job *job_at(quern_queue *queue, uint64_t which);
void commit_jobs(quern_queue *queue, uint64_t count);

quern_status queue_create(quern_device *device, uint32_t kind, quern_queue **out, quern_error *error);
quern_status queue_destroy(quern_queue *queue, quern_error *error);
quern_status upload(quern_device *device, quern_queue *queue, const quern_span *to, const void *from, uint64_t bytes, const quern_sync *sync,
                    quern_error *error);
quern_status download(quern_device *device, quern_queue *queue, void *to, const quern_span *from, uint64_t bytes, const quern_sync *sync,
                      quern_error *error);
quern_status copy(quern_device *device, quern_queue *queue, const quern_span *to, const quern_span *from, uint64_t bytes,
                  const quern_sync *sync, quern_error *error);
quern_status fence_create(quern_device *device, uint64_t initial, uint32_t flags, quern_fence **out, quern_error *error);
quern_status fence_destroy(quern_fence *fence, quern_error *error);
quern_status fence_query(quern_fence *fence, uint64_t *value, quern_error *error);
quern_status fence_info(quern_fence *fence, quern_fence_info *out, quern_error *error);
quern_status fence_wait(quern_device *device, const quern_array *points, uint32_t any, uint64_t nanoseconds, quern_error *error);
quern_status fence_signal(quern_fence *fence, uint64_t value, quern_error *error);
quern_status buffer_destroy(quern_buffer *buffer, quern_error *error);

/* graph.c */
quern_status support(quern_device *device, const quern_graph *graph, const quern_support_options *options, quern_answer *answers,
                     quern_error *error);
quern_status compile(quern_device *device, const quern_graph *graph, quern_compile_options *options, quern_plan **out, quern_error *error);
quern_status plan_info(quern_plan *plan, quern_plan_info *out, quern_error *error);
quern_status plan_destroy(quern_plan *plan, quern_error *error);
uint64_t element_bytes(quern_dtype dtype);
void steps_of(const quern_value *value, int64_t *bytes); /* between neighbours of each dimension */
int64_t extent(const quern_value *value, uint32_t dimension, const int64_t *upper);
uint64_t value_bytes(const quern_plan *plan, uint32_t value, const int64_t *upper); /* from the first to the last element */
quern_status apply_bounds(const quern_plan *plan, const quern_array *bounds, int64_t *upper, quern_error *error);

/* instance.c */
quern_status instance_create(quern_plan *plan, const quern_instance_options *options, quern_instance **out, quern_instance_info *info,
                             quern_error *error);
quern_status instance_destroy(quern_instance *instance, quern_error *error);
quern_status prepare(quern_device *device, quern_queue *queue, const quern_array *entries, const quern_sync *sync, quern_error *error);
quern_status submit(quern_device *device, quern_queue *queue, const quern_array *runs, quern_error *error);
quern_status run_cancel(quern_instance *instance, quern_error *error);
quern_status counters(quern_instance *instance, quern_counters *out, quern_error *error);

/* kernels.c: the run in flight; its status, by the queue's thread. Nothing is locked. */
void perform(quern_instance *instance, quern_run_status *status);

#endif
