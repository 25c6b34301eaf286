/* How a graph runs: plans, instances, runs, weight sets.
 *
 * compile -> plan; instance -> upper bounds and exact memory needs; prepare -> binds, may allocate, tune, build and
 * capture; submit -> does none of that [C12]. A one-node plan is the op-level interface. An instance is used by one
 * thread at a time; several instances of a plan run at once. */
#ifndef QUERN_PLAN_H
#define QUERN_PLAN_H

#include "quern_device.h"
#include "quern_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_plan quern_plan;
typedef struct quern_instance quern_instance;

/* Experimental [C30]: QUERN_TUNING_CACHED, QUERN_TUNING_MEASURE, quern_compile_options.tuning, quern_compile_options.communicators,
 * quern_compile_options.progress, quern_compile_options.refused_nodes. */
enum { QUERN_TUNING_NONE = 0, QUERN_TUNING_CACHED = 1, QUERN_TUNING_MEASURE = 2 };

typedef struct quern_compile_options {
  quern_header header;
  uint32_t effort; /* 0: no tuning, no capture, no code for one shape; 1: usual; 2: as long as it takes */
  uint32_t tuning; /* QUERN_TUNING_... */
  uint32_t fusion; /* 1: the plugin may fuse; 0: one kernel a node */
  uint32_t reserved;
  quern_string force_kernel; /* a kernel name or a family ("avx2"); refused where none fits; empty: free */
  quern_array communicators; /* for collectives; empty */
  /* Called now and then from the compiling thread; 0 stops with QUERN_CANCELLED. May be null. */
  int32_t (*progress)(void *context, double fraction);
  void *progress_context;
  /* With QUERN_UNSUPPORTED: ids of the nodes that cannot be compiled after all, for the host to cut again. */
  uint32_t *refused_nodes;
  uint64_t refused_capacity;
  uint64_t refused_count;
} quern_compile_options;

/* One kernel that a plan uses. */
typedef struct quern_kernel_info {
  quern_header header;
  quern_string name;   /* "matmul.q4_1.avx2" */
  quern_string reason; /* why it and not a faster one: "avx512: switched off by force_kernel=avx2" */
  uint32_t node;       /* first node that it computes */
  uint32_t node_count;
  quern_array nodes;   /* since minor 1: uint32_t, all node_count nodes that it computes, each once; empty: those from `node` on */
} quern_kernel_info;

/* A node that no rule of the plugin joins with others in a schedule: the kernel of its op computes it, as if nothing stood
 * beside it. Since minor 1. */
typedef struct quern_alone_info {
  quern_header header;
  uint32_t node;
  uint32_t flags;      /* QUERN_ALONE_... */
  quern_string rule;   /* the plugin's rule that came nearest: "product"; empty: none of its rules is for this op */
  quern_string reason; /* why it does not take the node, in words for the user: "its weights are f32"; never empty */
} quern_alone_info;
#define QUERN_ALONE_COMPLETE (1u << 0) /* by itself it is as fast as it could be beside others: nothing is lost */

/* Which runs of a number of rows a schedule serves, where a graph has other extents than that one too. */
enum {
  QUERN_ROWS_ANY = 0,
  QUERN_ROWS_OF_SEQUENCES = 1,   /* the other extents are as large as the rows, or as large as they can be: a row a sequence */
  QUERN_ROWS_OF_ONE_SEQUENCE = 2 /* the other extents are as small as they can be, but not 0: a prompt */
};

/* What runs of some numbers of rows do. The schedules of a plan serve, for each kind of rows, each number of rows once, from the
 * symbol's least (1 where that is 0) to its largest. Since minor 1. */
typedef struct quern_schedule_info {
  quern_header header;
  uint32_t symbol;     /* index into quern_graph.symbols: its extent is the number of rows; QUERN_NONE: it serves every run */
  uint32_t rows;       /* QUERN_ROWS_... */
  int64_t least;       /* numbers of rows that it serves, both ends included; 0 where symbol is QUERN_NONE */
  int64_t most;
  quern_array kernels; /* quern_kernel_info, in order; each node is in one of them; one of no node prepares what others read */
  quern_array alone;   /* quern_alone_info, by node */
} quern_schedule_info;

/* Experimental [C30]: quern_plan_info.numerics_key. */
typedef struct quern_plan_info {
  quern_header header;
  uint32_t determinism;      /* that the plan keeps */
  uint32_t launches;         /* kernels a run */
  uint64_t numerics_key;     /* equal keys compute equal bits */
  quern_array kernels;       /* quern_kernel_info, of the run with the fewest rows; lives as long as the plan */
  quern_array schedules;     /* since minor 1: quern_schedule_info; lives as long as the plan; empty: the plugin does not tell */
} quern_plan_info;

typedef struct quern_bound {
  uint32_t symbol; /* index into quern_graph.symbols */
  uint32_t reserved;
  int64_t upper;
} quern_bound;

typedef struct quern_instance_options {
  quern_header header;
  quern_array bounds; /* quern_bound, one a symbol at most; others keep the symbol's max */
  uint32_t queue_kind;
  uint32_t max_in_flight; /* wanted; the info says what is given */
} quern_instance_options;

/* What one slot needs: several spans, more bytes (padding), a larger alignment. */
typedef struct quern_slot_need {
  uint32_t value;
  uint32_t spans;
  uint64_t bytes; /* of each span */
  uint64_t alignment;
} quern_slot_need;

/* Experimental [C30]: quern_instance_info.scratch_alignment, quern_instance_info.slots. */
typedef struct quern_instance_info {
  quern_header header;
  uint64_t scratch_bytes; /* exact; the host binds it at prepare */
  uint64_t scratch_alignment;
  uint64_t private_bytes; /* exact; the plugin allocates it in prepare */
  uint32_t max_in_flight;
  uint32_t reserved;
  quern_array slots; /* quern_slot_need, for slots with other needs than quern_binding states; lives as long as the instance */
} quern_instance_info;

/* Memory for one value: one span per format plane, segment or expert; one span in the usual case, as large as the
 * value's bytes at the instance's bounds and aligned to quern_device_info.memory_alignment. A null span (no buffer, no
 * host, 0 bytes) stands for an expert that is not resident: a row that needs it raises EXPERT_ABSENT.
 * For a value with QUERN_VALUE_USES_INDIRECT the one span holds quern_indirect_span elements in device memory, read when
 * the run reads the value, so that a patch binds anew. */
typedef struct quern_indirect_span {
  uint64_t address; /* of buffer_address; 0: absent */
  uint64_t bytes;
} quern_indirect_span;

typedef struct quern_binding {
  quern_header header;
  uint32_t value; /* value id of a slot */
  uint32_t flags; /* none defined; a set bit is refused */
  quern_array spans; /* quern_span */
} quern_binding;

typedef struct quern_prepare_entry {
  quern_header header;
  quern_instance *instance;
  quern_array bindings; /* quern_binding: every constant, state, input and output of the graph */
  quern_span scratch;
} quern_prepare_entry;

/* A change to a state or input value, copied before submit returns and applied in queue order before the first node. */
typedef struct quern_patch {
  uint32_t value;
  uint32_t reserved;
  uint64_t offset; /* bytes */
  uint64_t bytes;  /* 64 KiB in all per run at least */
  const void *data;
} quern_patch;

typedef struct quern_run_status {
  quern_header header;
  quern_status code;
  uint32_t node; /* where it failed, or QUERN_NONE */
  uint32_t op;
  uint32_t rule;
  uint64_t faults; /* QUERN_FAULT_... */
} quern_run_status;
/* Experimental [C30]: QUERN_FAULT_INDEX_RANGE, QUERN_FAULT_NON_FINITE, QUERN_FAULT_EXPERT_ABSENT, quern_run_status.faults. */
#define QUERN_FAULT_INDEX_RANGE (1ull << 0)  /* a row, token or page id out of range: the row was written as zeros */
#define QUERN_FAULT_NON_FINITE (1ull << 1)
#define QUERN_FAULT_EXPERT_ABSENT (1ull << 2)

/* Experimental [C30]: quern_run.patches. */
typedef struct quern_run {
  quern_header header;
  quern_instance *instance;
  quern_array patches; /* quern_patch */
  quern_array bounds;  /* quern_bound: host-known upper bounds of this run */
  const quern_sync *sync;   /* may be null */
  quern_run_status *status; /* filled before the fence is reached; may be null; lives until then */
  uint64_t flags;           /* none defined; a set bit is refused */
} quern_run;

/* Since prepare. */
typedef struct quern_counters {
  quern_header header;
  uint64_t runs;
  uint64_t device_allocations;
  uint64_t host_allocations;
  uint64_t compiles;
  uint64_t rerecords;
  uint64_t host_copies; /* bytes that went between host and device */
} quern_counters;

/* A value of one of the graphs given to weights_plan. */
typedef struct quern_weight_source {
  uint32_t graph; /* index */
  uint32_t value; /* id */
} quern_weight_source;

/* One packed item of a weight set. Packed bytes hold no pointer and may be cached on disk under layout_key. */
/* Experimental [C30]: quern_weight_item.essential, quern_weight_item.source_needed_after, quern_weight_item.benefit. */
typedef struct quern_weight_item {
  quern_header header;
  quern_array sources;     /* quern_weight_source */
  quern_string layout_key;
  uint64_t bytes;
  uint64_t alignment;
  uint32_t essential;            /* 0: a faster copy that may be left out */
  uint32_t source_needed_after;  /* 0: the host may drop the source */
  double benefit;                /* seconds saved per token, a guess */
} quern_weight_item;

typedef struct quern_communicator {
  quern_header header;
  void *handle; /* of the plugin */
  uint32_t rank;
  uint32_t ranks;
} quern_communicator;

/* How the plugin wants pages of the KV cache: asked before the host makes its pools. */
typedef struct quern_kv_page_query {
  quern_header header;
  quern_dtype key_format;
  quern_dtype value_format;
  uint32_t kv_heads;
  uint32_t positions; /* of one page */
  uint32_t key_size;  /* elements of one head */
  uint32_t value_size;
} quern_kv_page_query;

typedef struct quern_kv_page_info {
  quern_header header;
  uint64_t key_bytes; /* of one page of keys */
  uint64_t value_bytes;
  uint64_t alignment;
  quern_string layout; /* layout key; empty: canonical [pages, kv_heads, positions, size] */
} quern_kv_page_info;

#ifdef __cplusplus
}
#endif
#endif
