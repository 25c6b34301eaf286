/* What the C99 sample says yes to, and the copy of a graph that it keeps as a plan. One judgement serves support and compile. */
#define _POSIX_C_SOURCE 200809L

#include "c99.h"

#include <string.h>

uint64_t element_bytes(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_F32:
    case QUERN_I32:
    case QUERN_U32: return 4;
    case QUERN_F16:
    case QUERN_BF16: return 2;
    default: return 0; /* no kernel here takes it */
  }
}

int64_t extent(const quern_value *value, uint32_t dimension, const int64_t *upper) {
  const uint32_t symbol = value->symbols[dimension];
  return symbol == 0 ? value->dims[dimension] : upper[symbol - 1];
}

void steps_of(const quern_value *value, int64_t *bytes) {
  int64_t next = (int64_t)element_bytes(value->dtype);
  uint32_t d;
  for (d = value->rank; d-- > 0;) {
    bytes[d] = (value->uses & QUERN_VALUE_USES_STRIDES) != 0 ? value->strides[d] : next;
    if (value->dims[d] != 0) next *= value->dims[d];
  }
}

uint64_t value_bytes(const quern_plan *plan, uint32_t value, const int64_t *upper) {
  const quern_value *v = &plan->values[value];
  int64_t steps[QUERN_MAX_DIMS], reach = 0, last = 0;
  uint32_t d;
  steps_of(v, steps);
  for (d = 0; d < v->rank; ++d) {
    const int64_t n = extent(v, d, upper);
    if (n == 0) return 0;
    if (__builtin_mul_overflow(n - 1, steps[d], &reach) || __builtin_add_overflow(last, reach, &last)) return UINT64_MAX;
  }
  return (uint64_t)last + element_bytes(v->dtype);
}

quern_status apply_bounds(const quern_plan *plan, const quern_array *bounds, int64_t *upper, quern_error *error) {
  uint64_t i;
  TRY(check_list(bounds, QUERN_MIN_SIZE_quern_bound, "bounds", error));
  if (bounds->count > plan->symbol_count) return fail(error, QUERN_INVALID_ARGUMENT, 11, "more bounds than symbols");
  for (i = 0; i < bounds->count; ++i) {
    const quern_bound *b = element(bounds, i);
    if (b->symbol >= plan->symbol_count || b->upper < plan->symbols[b->symbol].min || b->upper > upper[b->symbol])
      return fail(error, QUERN_INVALID_ARGUMENT, 11, "symbol %u of %u is bounded by %lld", b->symbol, plan->symbol_count, (long long)b->upper);
    upper[b->symbol] = b->upper;
  }
  return QUERN_OK;
}

static uint32_t root_of(const quern_value *values, uint32_t v) {
  while ((values[v].uses & QUERN_VALUE_USES_ALIAS) != 0) v = values[v].alias_of; /* each names an earlier value */
  return v;
}

static quern_status check_value(const quern_plan *plan, uint32_t id, quern_error *error) {
  const quern_value *v = &plan->values[id];
  int64_t count = 8;
  uint32_t d;
  if (v->rank > QUERN_MAX_DIMS || v->kind > QUERN_VALUE_OUTPUT)
    return fail(error, QUERN_INVALID_ARGUMENT, 26, "value %u has %u dimensions and the kind %u", id, v->rank, v->kind);
  for (d = 0; d < v->rank; ++d) {
    const uint32_t symbol = v->symbols[d];
    if (v->dims[d] < 0 || symbol > plan->symbol_count || (symbol != 0 && (v->uses & QUERN_VALUE_USES_SYMBOLS) == 0) ||
        (symbol != 0 && v->dims[d] != plan->symbols[symbol - 1].max))
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "value %u: dimension %u is %lld under the symbol %u", id, d, (long long)v->dims[d], symbol);
    if ((v->uses & QUERN_VALUE_USES_STRIDES) != 0 && v->strides[d] < 0)
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "value %u: dimension %u has the stride %lld", id, d, (long long)v->strides[d]);
    if (v->dims[d] != 0 && __builtin_mul_overflow(count, v->dims[d], &count))
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "value %u has more bytes than 63 bits hold", id);
  }
  if ((v->uses & QUERN_VALUE_USES_ALIAS) != 0 && v->alias_of >= id)
    return fail(error, QUERN_INVALID_ARGUMENT, 26, "value %u is an alias of %u, which is no earlier value", id, v->alias_of);
  return QUERN_OK;
}

/* Values and symbols of a graph, copied into the plan and checked. */
static quern_status copy_values(quern_plan *plan, const quern_graph *g, quern_error *error) {
  uint32_t i;
  for (i = 0; i < plan->value_count; ++i) {
    TRY(READ(plan->values[i], element(&g->values, i), quern_value, QUERN_TYPE_VALUE, error));
    if (plan->values[i].header.struct_size > g->values.stride)
      return fail(error, QUERN_INVALID_ARGUMENT, 2, "values: an element is larger than the stride");
  }
  for (i = 0; i < plan->symbol_count; ++i) {
    quern_symbol *s = &plan->symbols[i];
    memcpy(s, element(&g->symbols, i), sizeof *s);
    if (s->min < 0 || s->max < s->min ||
        (s->extent != QUERN_NONE && (s->extent >= plan->value_count || plan->values[s->extent].kind != QUERN_VALUE_STATE ||
                                     plan->values[s->extent].dtype != QUERN_I32 || plan->values[s->extent].rank > 1)))
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "symbol %u goes from %lld to %lld, and its extent is value %u", i, (long long)s->min,
                  (long long)s->max, s->extent);
  }
  for (i = 0; i < plan->value_count; ++i) TRY(check_value(plan, i, error));
  return QUERN_OK;
}

static int same_shape(const quern_value *x, const quern_value *y) {
  uint32_t d;
  if (x->rank != y->rank) return 0;
  for (d = 0; d < x->rank; ++d)
    if (x->dims[d] != y->dims[d] || x->symbols[d] != y->symbols[d]) return 0;
  return 1;
}

static int broadcasts(const quern_value *small, const quern_value *large) {
  uint32_t d;
  if (small->rank > large->rank) return 0;
  for (d = 0; d < small->rank; ++d) {
    const uint32_t e = d + large->rank - small->rank;
    const int one = small->dims[d] == 1 && small->symbols[d] == 0;
    if (!one && (small->dims[d] != large->dims[e] || small->symbols[d] != large->symbols[e])) return 0;
  }
  return 1;
}

static const char *const kernel_names[] = {"copy.elements", "matmul.floats", "add.f32"};
static const char *kernel_of(uint32_t op) {
  return op == QUERN_OP_COPY ? kernel_names[0] : op == QUERN_OP_MATMUL ? kernel_names[1] : op == QUERN_OP_ADD ? kernel_names[2] : NULL;
}
static quern_string text_of(const char *text) {
  quern_string result;
  result.data = text;
  result.size = strlen(text);
  return result;
}

static const char *refuse_value(const quern_value *v, uint32_t op) {
  const uint64_t known = QUERN_VALUE_USES_SYMBOLS | QUERN_VALUE_USES_ALIAS | QUERN_VALUE_USES_DATA |
                         (op == QUERN_OP_COPY ? QUERN_VALUE_USES_STRIDES : 0); /* a copy is what makes values contiguous */
  if ((v->uses & ~known) != 0) return "a value is strided, quantised, packed, indirect, a snapshot, or newer than this plugin";
  if (element_bytes(v->dtype) == 0) return "a value is neither f32, f16, bf16, i32 nor u32";
  if (v->alias_offset % element_bytes(v->dtype) != 0) return "a view starts inside an element";
  if (op == QUERN_OP_ADD && v->dtype != QUERN_F32) return "add takes f32";
  if (op == QUERN_OP_MATMUL && v->dtype != QUERN_F32 && v->dtype != QUERN_F16) return "matmul takes f32 and f16";
  return NULL;
}

static int is_one(const quern_value *v) { return v->rank == 0 || (v->rank == 1 && v->dims[0] == 1 && v->symbols[0] == 0); }

static int same_extent(const quern_value *x, uint32_t d, const quern_value *y, uint32_t e) {
  return x->dims[d] == y->dims[e] && x->symbols[d] == y->symbols[e];
}

static const char *refuse_shapes(const quern_value *x, const quern_value *w, const quern_value *y, uint32_t op) {
  if (op == QUERN_OP_MATMUL) {
    if (x->rank != 2 || w->rank != 2 || y->rank != 2) return "matmul takes two dimensions";
    return same_extent(x, 1, w, 1) && same_extent(y, 0, x, 0) && same_extent(y, 1, w, 0) ? NULL : "matmul: the shapes do not fit";
  }
  if (!same_shape(x, y)) return "the output has another shape than the first input";
  if (op == QUERN_OP_COPY) return x->dtype == y->dtype ? NULL : "copy keeps the element type";
  return broadcasts(w, y) ? NULL : "add: b does not broadcast to a";
}

static const char *refuse_predicate(const quern_value *p, const quern_value *first) {
  const char *why = refuse_value(p, 0);
  if (why != NULL) return why;
  if (p->dtype != QUERN_I32 && p->dtype != QUERN_U32) return "a predicate is neither i32 nor u32";
  return is_one(p) || (p->rank == 1 && first->rank > 1 && same_extent(p, 0, first, 0)) ? NULL : "a predicate is one number, or one a row";
}

/* NULL, and the step is filled; else why not. A node that is malformed was refused before. */
static const char *refuse(const quern_plan *plan, const quern_node *node, step *s) {
  const uint32_t *in = s->inputs;
  uint64_t i;
  const char *why;
  if (kernel_of(node->op) == NULL) return "this sample has copy, matmul and add alone";
  if (node->op_revision > 1) return "the op is asked for in a revision that is newer than this plugin";
  if ((node->uses & ~(QUERN_NODE_USES_PREDICATE | QUERN_NODE_USES_PRECISION | QUERN_NODE_USES_DETERMINISM | QUERN_NODE_USES_REGION)) != 0)
    return "the node has a body or a communicator, or uses a bit that is newer than this plugin";
  if ((node->uses & QUERN_NODE_USES_PRECISION) != 0 && (node->accumulate != QUERN_F32 || (node->conversions & ~15u) != 0))
    return "this plugin accumulates in f32 alone, or does not know a conversion";
  if ((node->uses & QUERN_NODE_USES_DETERMINISM) != 0 && node->determinism > QUERN_DETERMINISM_INVARIANT)
    return "a determinism that is newer than this plugin";
  for (i = 0; i < node->attributes.count; ++i) {
    const quern_attribute *a = element(&node->attributes, i);
    if (node->op != QUERN_OP_ADD || a->key != QUERN_KEY_ALPHA || a->type != QUERN_ATTR_F64) return "an attribute that this plugin does not know";
    s->alpha = (float)a->f;
  }
  if (s->input_count > 2 || in[0] == QUERN_NONE) return "matmul: this plugin has no bias and no c";
  for (i = 0; i < s->input_count; ++i) {
    if ((why = refuse_value(&plan->values[in[i]], node->op)) != NULL) return why;
    if (node->op != QUERN_OP_ADD && root_of(plan->values, in[i]) == root_of(plan->values, s->output))
      return "copy and matmul do not run in place";
  }
  if ((why = refuse_value(&plan->values[s->output], node->op)) != NULL) return why;
  if (s->predicate != QUERN_NONE && (why = refuse_predicate(&plan->values[s->predicate], &plan->values[in[0]])) != NULL) return why;
  return refuse_shapes(&plan->values[in[0]], &plan->values[in[s->input_count - 1]], &plan->values[s->output], node->op);
}

static quern_status check_ids(const quern_array *ids, uint64_t least, uint64_t most, uint32_t value_count, uint32_t node, quern_error *error) {
  uint64_t i;
  TRY(check_list(ids, sizeof(uint32_t), "value ids", error));
  if (ids->count < least || ids->count > most)
    return fail(error, QUERN_INVALID_ARGUMENT, 26, "node %u has %llu values where it takes %llu to %llu", node, (unsigned long long)ids->count,
                (unsigned long long)least, (unsigned long long)most);
  for (i = 0; i < ids->count; ++i) {
    const uint32_t id = *(const uint32_t *)element(ids, i);
    if (id == QUERN_NONE ? i < least : id >= value_count)
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "node %u names value %u of %u", node, id, value_count);
  }
  return QUERN_OK;
}

/* The form of a node, which no answer excuses. `made` has a byte for each value. */
static quern_status check_node(const quern_plan *plan, const quern_node *node, uint32_t n, unsigned char *made, quern_error *error) {
  const int known = kernel_of(node->op) != NULL;
  const uint64_t inputs = !known ? 0 : node->op == QUERN_OP_COPY ? 1 : 2, most = !known ? 64 : node->op == QUERN_OP_MATMUL ? 4 : inputs;
  uint64_t i;
  TRY(check_ids(&node->inputs, inputs, most, plan->value_count, n, error));
  TRY(check_ids(&node->outputs, known ? 1 : 0, known ? 1 : 64, plan->value_count, n, error));
  TRY(check_list(&node->attributes, QUERN_MIN_SIZE_quern_attribute, "attributes", error));
  if ((node->uses & QUERN_NODE_USES_PREDICATE) != 0 && (node->predicate >= plan->value_count || !made[node->predicate]))
    return fail(error, QUERN_INVALID_ARGUMENT, 26, "node %u: its predicate %u is no value that was made", n, node->predicate);
  for (i = 0; i < node->inputs.count; ++i) {
    const uint32_t id = *(const uint32_t *)element(&node->inputs, i);
    if (id != QUERN_NONE && !made[id]) return fail(error, QUERN_INVALID_ARGUMENT, 26, "node %u reads value %u before it is made", n, id);
  }
  for (i = 0; i < node->outputs.count; ++i) {
    const uint32_t id = *(const uint32_t *)element(&node->outputs, i);
    if (id == QUERN_NONE) continue;
    if (plan->values[id].kind == QUERN_VALUE_CONSTANT || plan->values[id].kind == QUERN_VALUE_INPUT)
      return fail(error, QUERN_INVALID_ARGUMENT, 26, "node %u writes value %u, which is not to be written", n, id);
    made[id] = 1;
  }
  return QUERN_OK;
}

static void free_plan(quern_plan *plan) {
  quern_plugin *plugin = plan->device->plugin;
  give(plugin, plan->values, plan->value_count * sizeof *plan->values);
  give(plugin, plan->symbols, plan->symbol_count * sizeof *plan->symbols);
  give(plugin, plan->steps, plan->step_count * sizeof *plan->steps);
  give(plugin, plan->kernels, plan->step_count * sizeof *plan->kernels);
  give(plugin, plan, sizeof *plan);
}

/* Reads a graph into a plan; `reasons` has a place for each node: NULL for a yes. */
static quern_status read_nodes(quern_plan *plan, const quern_graph *g, const char **reasons, unsigned char *made, quern_error *error) {
  uint32_t n, v;
  TRY(copy_values(plan, g, error));
  for (v = 0; v < plan->value_count; ++v)
    made[v] = plan->values[v].kind != QUERN_VALUE_INTERNAL || (plan->values[v].uses & QUERN_VALUE_USES_ALIAS) != 0;
  for (n = 0; n < plan->step_count; ++n) {
    quern_node node;
    step *s = &plan->steps[n];
    TRY(READ(node, element(&g->nodes, n), quern_node, QUERN_TYPE_NODE, error));
    TRY(check_node(plan, &node, n, made, error));
    s->op = node.op;
    s->alpha = 1;
    s->predicate = (node.uses & QUERN_NODE_USES_PREDICATE) != 0 ? node.predicate : QUERN_NONE;
    s->input_count = (uint32_t)node.inputs.count;
    for (v = 0; v < s->input_count && v < 2; ++v) s->inputs[v] = *(const uint32_t *)element(&node.inputs, v);
    while (s->input_count > 2 && *(const uint32_t *)element(&node.inputs, s->input_count - 1) == QUERN_NONE) --s->input_count;
    if (node.outputs.count != 0) s->output = *(const uint32_t *)element(&node.outputs, 0);
    reasons[n] = refuse(plan, &node, s);
  }
  return QUERN_OK;
}

static quern_status read_graph(quern_device *device, const quern_graph *graph, quern_plan **out, const char ***reasons, quern_error *error) {
  quern_graph g;
  quern_plan *plan;
  unsigned char *made;
  quern_status status;
  TRY(READ(g, graph, quern_graph, QUERN_TYPE_GRAPH, error));
  TRY(check_list(&g.values, QUERN_MIN_SIZE_quern_value, "values", error));
  TRY(check_list(&g.symbols, QUERN_MIN_SIZE_quern_symbol, "symbols", error));
  TRY(check_list(&g.nodes, QUERN_MIN_SIZE_quern_node, "nodes", error));
  if (g.values.count >= QUERN_NONE || g.nodes.count >= QUERN_NONE || g.symbols.count >= QUERN_NONE)
    return fail(error, QUERN_INVALID_ARGUMENT, 26, "the graph has more values, nodes or symbols than ids");
  plan = take(device->plugin, sizeof *plan, "plan");
  if (plan == NULL) return no_memory(error, "a plan");
  plan->device = device;
  plan->value_count = (uint32_t)g.values.count;
  plan->symbol_count = (uint32_t)g.symbols.count;
  plan->step_count = (uint32_t)g.nodes.count;
  plan->values = take(device->plugin, plan->value_count * sizeof *plan->values, "plan");
  plan->symbols = take(device->plugin, plan->symbol_count * sizeof *plan->symbols, "plan");
  plan->steps = take(device->plugin, plan->step_count * sizeof *plan->steps, "plan");
  plan->kernels = take(device->plugin, plan->step_count * sizeof *plan->kernels, "plan");
  *reasons = take(device->plugin, plan->step_count * sizeof **reasons, "plan");
  made = take(device->plugin, plan->value_count, "plan");
  if (plan->values == NULL || plan->symbols == NULL || plan->steps == NULL || plan->kernels == NULL || *reasons == NULL || made == NULL)
    status = no_memory(error, "a plan");
  else
    status = read_nodes(plan, &g, *reasons, made, error);
  give(device->plugin, made, plan->value_count);
  *out = plan;
  if (status != QUERN_OK) {
    give(device->plugin, *reasons, plan->step_count * sizeof **reasons);
    free_plan(plan);
  }
  return status;
}

quern_status support(quern_device *device, const quern_graph *graph, const quern_support_options *options, quern_answer *answers,
                     quern_error *error) {
  quern_plan *plan;
  const char **reasons;
  quern_answer answer;
  quern_status status = QUERN_OK;
  uint32_t n, stride = 0;
  TRY(check_device(device, error));
  if (options != NULL) {
    quern_support_options o;
    TRY(READ(o, options, quern_support_options, QUERN_TYPE_SUPPORT_OPTIONS, error));
    if (o.flags != 0) return fail(error, QUERN_UNSUPPORTED, 3, "support: the flags %u are not known here", o.flags);
  }
  TRY(read_graph(device, graph, &plan, &reasons, error));
  for (n = 0; n < plan->step_count && status == QUERN_OK; ++n) {
    quern_answer *to = (quern_answer *)(void *)((char *)answers + (uint64_t)n * stride);
    status = READ(answer, to, quern_answer, QUERN_TYPE_ANSWER, error);
    if (status != QUERN_OK) break;
    if (n == 0) stride = to->header.struct_size; /* [C2] */
    if (answer.header.struct_size > stride) status = fail(error, QUERN_INVALID_ARGUMENT, 2, "answers: one is larger than the first");
    if (status != QUERN_OK) break;
    memset(&answer, 0, sizeof answer);
    answer.verdict = reasons[n] == NULL ? QUERN_ANSWER_YES : QUERN_ANSWER_NO;
    answer.group = QUERN_NONE;
    answer.code = reasons[n] == NULL ? QUERN_OK : QUERN_UNSUPPORTED;
    if (reasons[n] == NULL) answer.kernel = text_of(kernel_of(plan->steps[n].op));
    else answer.text = text_of(reasons[n]);
    write_struct(to, &answer, sizeof answer);
  }
  give(device->plugin, reasons, plan->step_count * sizeof *reasons);
  free_plan(plan);
  return status;
}

static int fits_force(const quern_string *wanted, uint32_t op) {
  const char *name = kernel_of(op);
  return wanted->size == 0 || (wanted->size == strlen(name) && memcmp(wanted->data, name, strlen(name)) == 0);
}

static quern_status check_options(const quern_compile_options *o, quern_error *error) {
  if (o->effort > 2 || o->tuning > QUERN_TUNING_MEASURE || o->fusion > 1)
    return fail(error, QUERN_UNSUPPORTED, 3, "compile: an effort, tuning or fusion that is newer than this plugin");
  if (o->communicators.count != 0) return fail(error, QUERN_UNSUPPORTED, 19, "this plugin runs on one device and has no collectives");
  return QUERN_OK;
}

quern_status compile(quern_device *device, const quern_graph *graph, quern_compile_options *options, quern_plan **out, quern_error *error) {
  quern_compile_options o;
  quern_plan *plan;
  const char **reasons;
  quern_status status = QUERN_OK;
  uint64_t refused = 0;
  uint32_t n;
  TRY(check_device(device, error));
  if (out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "compile: no place for the plan");
  memset(&o, 0, sizeof o);
  if (options != NULL) TRY(READ(o, options, quern_compile_options, QUERN_TYPE_COMPILE_OPTIONS, error));
  TRY(check_options(&o, error));
  TRY(read_graph(device, graph, &plan, &reasons, error));
  for (n = 0; n < plan->step_count; ++n) {
    quern_kernel_info *kernel = &plan->kernels[n];
    if (reasons[n] == NULL && !fits_force(&o.force_kernel, plan->steps[n].op)) reasons[n] = "the kernel that is forced is not here";
    if (reasons[n] != NULL) {
      if (refused < o.refused_capacity && o.refused_nodes != NULL) o.refused_nodes[refused] = n;
      if (refused++ == 0) status = fail(error, QUERN_UNSUPPORTED, 10, "node %u: %s", n, reasons[n]);
      continue;
    }
    kernel->header.struct_size = sizeof *kernel;
    kernel->header.struct_type = QUERN_TYPE_KERNEL_INFO;
    kernel->name = text_of(kernel_of(plan->steps[n].op));
    kernel->node = n;
    kernel->node_count = 1;
  }
  if (options != NULL) options->refused_count = refused;
  if (status == QUERN_OK && o.progress != NULL && o.progress(o.progress_context, 1.0) == 0)
    status = fail(error, QUERN_CANCELLED, 0, "compile was stopped");
  give(device->plugin, reasons, plan->step_count * sizeof *reasons);
  if (status != QUERN_OK) {
    free_plan(plan);
    return status;
  }
  pthread_mutex_lock(&device->lock);
  ++device->children;
  pthread_mutex_unlock(&device->lock);
  *out = plan;
  return QUERN_OK;
}

quern_status plan_info(quern_plan *plan, quern_plan_info *out, quern_error *error) {
  quern_plan_info info;
  if (plan == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the plan is null");
  TRY(check_device(plan->device, error));
  TRY(READ(info, out, quern_plan_info, QUERN_TYPE_PLAN_INFO, error));
  memset(&info, 0, sizeof info);
  info.determinism = QUERN_DETERMINISM_INVARIANT; /* each element is computed alone, in one order */
  info.launches = plan->step_count;
  info.numerics_key = 0x63393900000001u; /* one set of kernels; the last digits count its changes */
  info.kernels.data = plan->kernels;
  info.kernels.count = plan->step_count;
  info.kernels.stride = sizeof *plan->kernels;
  write_struct(out, &info, sizeof info);
  return QUERN_OK;
}

quern_status plan_destroy(quern_plan *plan, quern_error *error) {
  quern_device *device;
  uint32_t instances;
  if (plan == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the plan is null");
  device = plan->device;
  TRY(check_device(device, error));
  pthread_mutex_lock(&device->lock);
  instances = plan->instances;
  if (instances == 0) --device->children;
  pthread_mutex_unlock(&device->lock);
  if (instances != 0) return fail(error, QUERN_BUSY, 27, "plan_destroy: %u instances are alive", instances);
  free_plan(plan);
  return QUERN_OK;
}
