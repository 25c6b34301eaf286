/* The table that a plugin fills in quern_plugin_query_v1.
 *
 * REQUIRED functions are marked; every other may be null, and the host then does without or supplies it. Every function
 * but destroy returns a status and never throws, prints, aborts, exits, or changes the process's environment,
 * signals, locale or floating-point mode [C9]. `error` may be null. */
#ifndef QUERN_PLUGIN_API_H
#define QUERN_PLUGIN_API_H

#include "quern_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Experimental [C30]: memory_limit, trim, fence_signal, communicator_create, communicator_destroy, snapshot, restore, plan_serialize,
 * plan_deserialize, buffer_address, fence_info, kv_page_query, tuning_export, tuning_import. */
typedef struct quern_plugin_api {
  quern_header header;
  uint32_t abi_minor;      /* min(host, plugin), as negotiated */
  uint32_t opset_version;
  uint32_t format_table_version;
  uint32_t reserved;
  quern_string id;         /* equals the note's */
  quern_string version;
  quern_string build;      /* build id for caches and reports */

  /* REQUIRED. create copies nothing of *host: the host keeps it alive until destroy returns. */
  quern_status (*create)(const quern_host *host, quern_plugin **out, quern_error *error);
  void (*destroy)(quern_plugin *plugin); /* REQUIRED; the only function that works after fork */

  /* Opens the vendor's libraries, checks them, runs a small kernel on each device and compares the result. Null: the
   * plugin has nothing that could be missing. */
  quern_status (*probe)(quern_plugin *plugin, quern_probe_report *report, quern_error *error);

  quern_status (*device_count)(quern_plugin *plugin, uint32_t *count, quern_error *error); /* REQUIRED */
  quern_status (*device_info)(quern_plugin *plugin, uint32_t index, quern_device_info *out, quern_error *error); /* REQUIRED */
  quern_status (*device_open)(quern_plugin *plugin, uint32_t index, quern_device **out, quern_error *error); /* REQUIRED */
  quern_status (*device_close)(quern_device *device, quern_error *error); /* REQUIRED; BUSY with live children */

  /* Memory; all null under QUERN_CAP_HOST_MEMORY. */
  quern_status (*heap_info)(quern_device *device, uint32_t heap, quern_heap_info *out, quern_error *error);
  quern_status (*memory_limit)(quern_device *device, uint32_t heap, uint64_t bytes, quern_error *error);
  quern_status (*buffer_create)(quern_device *device, const quern_buffer_options *options, uint64_t bytes,
                                quern_buffer **out, quern_error *error);
  quern_status (*buffer_destroy)(quern_buffer *buffer, quern_error *error);
  quern_status (*trim)(quern_device *device, uint32_t level, quern_error *error);

  /* Queues and copies; null under QUERN_CAP_SYNCHRONOUS the queue and fence functions (queue arguments are then null).
   * `from` of upload and `to` of download live until the call's point is reached; the ranges of copy have no byte in
   * common; an object that work in flight names is BUSY [C31]. */
  quern_status (*queue_create)(quern_device *device, uint32_t kind, quern_queue **out, quern_error *error);
  quern_status (*queue_destroy)(quern_queue *queue, quern_error *error);
  quern_status (*upload)(quern_device *device, quern_queue *queue, const quern_span *to, const void *from, uint64_t bytes,
                         const quern_sync *sync, quern_error *error);
  quern_status (*download)(quern_device *device, quern_queue *queue, void *to, const quern_span *from, uint64_t bytes,
                           const quern_sync *sync, quern_error *error);
  quern_status (*copy)(quern_device *device, quern_queue *queue, const quern_span *to, const quern_span *from,
                       uint64_t bytes, const quern_sync *sync, quern_error *error);
  quern_status (*fill)(quern_device *device, quern_queue *queue, const quern_span *to, uint32_t pattern, uint64_t bytes,
                       const quern_sync *sync, quern_error *error);
  quern_status (*fence_create)(quern_device *device, uint64_t initial, uint32_t flags, quern_fence **out, quern_error *error);
  quern_status (*fence_destroy)(quern_fence *fence, quern_error *error);
  quern_status (*fence_query)(quern_fence *fence, uint64_t *value, quern_error *error);
  quern_status (*fence_wait)(quern_device *device, const quern_array *points, uint32_t any, uint64_t nanoseconds, quern_error *error);
  quern_status (*fence_signal)(quern_fence *fence, uint64_t value, quern_error *error);

  /* answers: the caller's array of nodes.count elements, each with its header set. REQUIRED. */
  quern_status (*support)(quern_device *device, const quern_graph *graph, const quern_support_options *options,
                          quern_answer *answers, quern_error *error);

  /* Weight sets. Null: constants are bound in their canonical layout. Items live until weights_release. */
  quern_status (*weights_plan)(quern_device *device, const quern_array *graphs /* quern_graph* */, uint64_t budget,
                               quern_array *items /* quern_weight_item */, quern_error *error);
  quern_status (*weights_pack)(quern_device *device, quern_queue *queue, const quern_weight_item *item,
                               const quern_array *sources /* quern_span */, const quern_array *destination /* quern_span */,
                               const quern_sync *sync, quern_error *error);
  quern_status (*weights_release)(quern_device *device, quern_array *items, quern_error *error);

  quern_status (*compile)(quern_device *device, const quern_graph *graph, quern_compile_options *options,
                          quern_plan **out, quern_error *error); /* REQUIRED; concurrent */
  quern_status (*plan_info)(quern_plan *plan, quern_plan_info *out, quern_error *error);
  quern_status (*plan_destroy)(quern_plan *plan, quern_error *error); /* REQUIRED */
  quern_status (*instance_create)(quern_plan *plan, const quern_instance_options *options, quern_instance **out,
                                  quern_instance_info *info, quern_error *error); /* REQUIRED */
  quern_status (*instance_destroy)(quern_instance *instance, quern_error *error); /* REQUIRED */
  quern_status (*prepare)(quern_device *device, quern_queue *queue, const quern_array *entries /* quern_prepare_entry */,
                          const quern_sync *sync, quern_error *error); /* REQUIRED */
  /* Not OK: nothing was enqueued. How a run ended is in its status, also where the plugin is SYNCHRONOUS. REQUIRED. */
  quern_status (*submit)(quern_device *device, quern_queue *queue, const quern_array *runs /* quern_run */,
                         quern_error *error);
  /* From any thread: the run in flight ends soon (within 50 ms on CPUs) with QUERN_CANCELLED; later runs are free. */
  quern_status (*run_cancel)(quern_instance *instance, quern_error *error);
  quern_status (*counters)(quern_instance *instance, quern_counters *out, quern_error *error);

  /* What no backend uses yet: refused with a reason where a plugin fills them, absent where it does not. */
  quern_status (*communicator_create)(quern_device *device, const void *unique_id, uint64_t unique_id_bytes,
                                      uint32_t rank, uint32_t ranks, quern_communicator *out, quern_error *error);
  quern_status (*communicator_destroy)(quern_device *device, quern_communicator *communicator, quern_error *error);
  quern_status (*snapshot)(quern_device *device, quern_queue *queue, quern_instance *instance, uint32_t value,
                           const quern_span *to, quern_error *error);
  /* Bytes under the plugin's build, driver and architecture; another of these: QUERN_VERSION, and the host compiles. */
  quern_status (*plan_serialize)(quern_plan *plan, void *bytes, uint64_t capacity, uint64_t *needed, quern_error *error);
  quern_status (*plan_deserialize)(quern_device *device, const void *bytes, uint64_t size, quern_plan **out, quern_error *error);
  /* The other direction of snapshot: the state value becomes what was copied. Both in queue order. */
  quern_status (*restore)(quern_device *device, quern_queue *queue, quern_instance *instance, uint32_t value,
                          const quern_span *from, quern_error *error);
  /* For tables of QUERN_VALUE_USES_INDIRECT. Valid until the buffer is destroyed. */
  quern_status (*buffer_address)(quern_buffer *buffer, uint64_t *address, quern_error *error);
  quern_status (*fence_info)(quern_fence *fence, quern_fence_info *out, quern_error *error);
  quern_status (*kv_page_query)(quern_device *device, const quern_kv_page_query *query, quern_kv_page_info *out,
                                quern_error *error); /* null: canonical pages */
  /* What QUERN_TUNING_MEASURE found, for QUERN_TUNING_CACHED in another process. */
  quern_status (*tuning_export)(quern_device *device, void *bytes, uint64_t capacity, uint64_t *needed, quern_error *error);
  quern_status (*tuning_import)(quern_device *device, const void *bytes, uint64_t size, quern_error *error);
} quern_plugin_api;

#ifdef __cplusplus
}
#endif
#endif
