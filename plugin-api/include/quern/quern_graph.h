/* What a plugin is asked to run: values, nodes, graphs; and how it answers.
 *
 * A graph is a view of flat arrays, valid only during the call that it is passed to. Nodes stand in an order in
 * which they may run. Values are in row-major order: the last dimension is the contiguous one. */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include "quern_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_MAX_DIMS 6

/* Kinds of value. All but `internal` are binding slots of the plan, numbered by their value id. */
enum {
  QUERN_VALUE_INTERNAL = 0, /* made and used inside the graph; the plugin places it in scratch */
  QUERN_VALUE_CONSTANT = 1, /* weights; bound at prepare, never written */
  QUERN_VALUE_STATE = 2,    /* read and written across runs: control values, KV pages, optimiser state */
  QUERN_VALUE_INPUT = 3,    /* written by the host, or by another plan, before each run */
  QUERN_VALUE_OUTPUT = 4    /* read by the host, or by another plan, after each run */
};

/* Bits of quern_value.uses: members that carry meaning. A reader that does not know a set bit answers "no". */
/* Experimental [C30]: QUERN_VALUE_USES_DATA, QUERN_VALUE_USES_INDIRECT, QUERN_VALUE_USES_SNAPSHOT. */
#define QUERN_VALUE_USES_SYMBOLS (1ull << 0) /* some dims are ranged */
#define QUERN_VALUE_USES_STRIDES (1ull << 1) /* not contiguous */
#define QUERN_VALUE_USES_ALIAS (1ull << 2)   /* a view of another value's memory */
#define QUERN_VALUE_USES_DATA (1ull << 3)    /* the bytes are known now */
#define QUERN_VALUE_USES_FORMAT (1ull << 4)  /* quantised: format_hash is set */
#define QUERN_VALUE_USES_LAYOUT (1ull << 5)  /* packed under a layout key of weights_plan */
#define QUERN_VALUE_USES_INDIRECT (1ull << 6) /* span addresses are read from device memory */
#define QUERN_VALUE_USES_SNAPSHOT (1ull << 7) /* state that the host must copy to roll back */
#define QUERN_VALUE_USES_ALL 0xffull

typedef struct quern_value {
  quern_header header;
  uint64_t uses;
  uint32_t kind;
  quern_dtype dtype;
  uint32_t rank;     /* 0 to QUERN_MAX_DIMS; 0 is a scalar */
  uint32_t alias_of; /* value id, or QUERN_NONE; an alias may stay unbound: it then lies in the other's */
  int64_t dims[QUERN_MAX_DIMS];      /* with a symbol: its largest value */
  uint32_t symbols[QUERN_MAX_DIMS];  /* index into quern_graph.symbols + 1; 0: fixed */
  int64_t strides[QUERN_MAX_DIMS];   /* bytes; of the last dimension: the element's size (of a block for formats) */
  uint64_t alias_offset;             /* bytes into alias_of */
  uint64_t format_hash;              /* of the descriptor in quern_formats.h */
  quern_string layout;               /* layout key */
  quern_string name;                 /* "blk.3.attn_q.weight": for messages only */
  const void *data;                  /* with USES_DATA: contiguous bytes */
  uint64_t data_bytes;
} quern_value;

/* A ranged dimension. Compile sees min and max; an instance an upper bound; a run a bound and, where `extent` names a
 * state value (one i32), the exact count on the device. Bytes beyond the exact extent are neither read nor written. The
 * steps of a contiguous value come from quern_value.dims, the largest values, at every stage. */
/* Experimental [C30]: quern_symbol.multiple_of. */
typedef struct quern_symbol {
  quern_string name; /* "tokens" */
  int64_t min;
  int64_t max;
  int64_t multiple_of;
  uint32_t extent; /* value id, or QUERN_NONE: the run's bound is exact */
  uint32_t reserved;
} quern_symbol;

enum { QUERN_ATTR_I64 = 1, QUERN_ATTR_F64 = 2 };

/* An attribute of a node. A key that a plugin does not know for that op is answered "no" [C4]. An attribute that
 * equals its default is not sent, so that an old plugin still accepts what it can compute. */
typedef struct quern_attribute {
  uint32_t key;  /* QUERN_KEY_... of quern_ops.h */
  uint32_t type; /* QUERN_ATTR_... */
  int64_t i;
  double f;
} quern_attribute;

/* Bits of quern_node.uses. */
/* Experimental [C30]: QUERN_NODE_USES_BODY, QUERN_NODE_USES_REGION, QUERN_NODE_USES_COMMUNICATOR. */
#define QUERN_NODE_USES_PREDICATE (1ull << 0)
#define QUERN_NODE_USES_BODY (1ull << 1)      /* a composite */
#define QUERN_NODE_USES_PRECISION (1ull << 2) /* accumulate or conversions differ from the default */
#define QUERN_NODE_USES_DETERMINISM (1ull << 3)
#define QUERN_NODE_USES_REGION (1ull << 4)
#define QUERN_NODE_USES_COMMUNICATOR (1ull << 5)
#define QUERN_NODE_USES_ALL 0x3full

/* Input conversions that a node allows; 0 is `exact`: f32 arithmetic on the values as they are. */
enum { QUERN_CONVERT_NONE = 0, QUERN_CONVERT_TF32 = 1, QUERN_CONVERT_BF16 = 2, QUERN_CONVERT_F16 = 4, QUERN_CONVERT_INT8 = 8 };
/* Free: any order, each time. Repeatable: the same plan and inputs give the same bits. Invariant: the bits of a row do not
 * depend on the other rows, the batch, the chunking or the number of threads. */
enum { QUERN_DETERMINISM_FREE = 0, QUERN_DETERMINISM_REPEATABLE = 1, QUERN_DETERMINISM_INVARIANT = 2 };

typedef struct quern_node {
  quern_header header;
  uint64_t uses;
  uint32_t op;          /* QUERN_OP_... */
  uint32_t op_revision; /* the lowest that gives this node its meaning */
  quern_array inputs;   /* uint32_t value ids; QUERN_NONE: an optional input that is absent */
  quern_array outputs;  /* uint32_t value ids */
  quern_array attributes; /* quern_attribute */
  uint32_t predicate;   /* value id, u32 or i32, [1] or one a row of the first input's first dim: 0 writes nothing */
  uint32_t body;        /* index into quern_graph.bodies: the composite's meaning in core ops */
  quern_dtype accumulate; /* QUERN_F32 unless said */
  uint32_t conversions;   /* QUERN_CONVERT_... bits */
  uint32_t determinism;
  uint32_t region;      /* no value is kept across regions marked for recomputation */
  quern_string name;    /* "blk.3.attn_norm": for messages and traces only */
  uint32_t communicator; /* index into quern_compile_options.communicators, for collectives */
  uint32_t reserved;
} quern_node;

typedef struct quern_graph {
  quern_header header;
  quern_array values;  /* quern_value; the index is the value id */
  quern_array nodes;   /* quern_node */
  quern_array symbols; /* quern_symbol */
  quern_array bodies;  /* quern_graph */
  quern_string name;
} quern_graph;

/* The answer for one node. */
/* Experimental [C30]: QUERN_ANSWER_YES_IN_GROUP, QUERN_ANSWER_YES_IF, QUERN_REQUIRE_LAYOUT, QUERN_REQUIRE_DIM_IN_SET, QUERN_REQUIRE_CONST_VALUES,
 * QUERN_REQUIRE_KV_CONTIGUOUS, quern_answer.group, quern_answer.requirements. The runtime takes them for a "no". */
enum { QUERN_ANSWER_NO = 0, QUERN_ANSWER_YES = 1, QUERN_ANSWER_YES_IN_GROUP = 2, QUERN_ANSWER_YES_IF = 3 };
enum { QUERN_REQUIRE_LAYOUT = 1, QUERN_REQUIRE_DIM_IN_SET = 2, QUERN_REQUIRE_CONST_VALUES = 3, QUERN_REQUIRE_KV_CONTIGUOUS = 4 };

/* A kind that the host does not know means "no". */
typedef struct quern_requirement {
  uint32_t kind;
  uint32_t value; /* value id */
  uint32_t dim;
  uint32_t reserved;
  quern_array payload; /* DIM_IN_SET: int64_t; LAYOUT: one quern_string */
} quern_requirement;

/* The caller's array, one per node, filled by support(). Strings live as long as the plugin handle. */
typedef struct quern_answer {
  quern_header header;
  uint32_t verdict;
  uint32_t group;     /* all nodes of one group are claimed together or not at all */
  quern_status code;  /* of a "no" */
  uint32_t reserved;
  quern_string text;  /* of a "no": "q4_k weights need a row length that is a multiple of 256, this is 576" */
  quern_string kernel; /* of a "yes": the kernel that would run, "matmul.q4_1.avx2" */
  quern_array requirements; /* quern_requirement, for YES_IF */
} quern_answer;

typedef struct quern_support_options {
  quern_header header;
  uint32_t flags;
  uint32_t reserved;
} quern_support_options;

#ifdef __cplusplus
}
#endif
#endif
