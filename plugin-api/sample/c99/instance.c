/* Instances of the C99 sample: bindings, runs, and all that can be refused before anything is enqueued. Only instance_create and prepare
 * allocate [C12]; a run lies in its instance until the queue is done with it, so one run of an instance is in flight at most. */
#define _POSIX_C_SOURCE 200809L

#include "c99.h"

#include <string.h>

static quern_status check_instance(const quern_instance *instance, quern_error *error) {
  if (instance == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the instance is null");
  return check_device(instance->plan->device, error);
}

static int is_alias(const quern_value *v) { return (v->uses & QUERN_VALUE_USES_ALIAS) != 0; }

static void free_instance(quern_instance *i) {
  const quern_plan *plan = i->plan;
  quern_plugin *plugin = plan->device->plugin;
  uint32_t v;
  for (v = 0; i->places != NULL && v < plan->value_count; ++v) release_buffer(i->places[v].buffer);
  give(plugin, i->places, plan->value_count * sizeof *i->places);
  give(plugin, i->upper, plan->symbol_count * sizeof *i->upper);
  give(plugin, i->now, plan->symbol_count * sizeof *i->now);
  give(plugin, i->scratch_offset, plan->value_count * sizeof *i->scratch_offset);
  give(plugin, i->patches, patch_room / 16 * sizeof *i->patches);
  give(plugin, i->patch_data, patch_room);
  give(plugin, i, sizeof *i);
}

/* Internal values lie in scratch, one behind the other. */
static quern_status lay_out(quern_instance *i, const quern_array *bounds, quern_error *error) {
  const quern_plan *plan = i->plan;
  uint32_t v, s;
  for (s = 0; s < plan->symbol_count; ++s) i->upper[s] = plan->symbols[s].max;
  TRY(apply_bounds(plan, bounds, i->upper, error));
  for (v = 0; v < plan->value_count; ++v) {
    uint64_t bytes;
    if (plan->values[v].kind != QUERN_VALUE_INTERNAL || is_alias(&plan->values[v])) continue;
    i->scratch_offset[v] = i->scratch_bytes;
    bytes = value_bytes(plan, v, i->upper);
    if (bytes > ((uint64_t)1 << 62) - i->scratch_bytes) return fail(error, QUERN_DOES_NOT_FIT, 12, "the scratch exceeds 62 bits");
    i->scratch_bytes += (bytes + alignment - 1) / alignment * alignment;
  }
  return QUERN_OK;
}

quern_status instance_create(quern_plan *plan, const quern_instance_options *options, quern_instance **out, quern_instance_info *info,
                             quern_error *error) {
  quern_instance_options o;
  quern_instance_info result;
  quern_instance *i;
  quern_plugin *plugin;
  quern_status status;
  if (plan == NULL || out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the plan or the place for the instance is null");
  TRY(check_device(plan->device, error));
  memset(&o, 0, sizeof o);
  if (options != NULL) TRY(READ(o, options, quern_instance_options, QUERN_TYPE_INSTANCE_OPTIONS, error));
  TRY(READ(result, info, quern_instance_info, QUERN_TYPE_INSTANCE_INFO, error));
  plugin = plan->device->plugin;
  i = take(plugin, sizeof *i, "instance");
  if (i == NULL) return no_memory(error, "an instance");
  i->plan = plan;
  i->upper = take(plugin, plan->symbol_count * sizeof *i->upper, "instance");
  i->now = take(plugin, plan->symbol_count * sizeof *i->now, "instance");
  i->scratch_offset = take(plugin, plan->value_count * sizeof *i->scratch_offset, "instance");
  i->patches = take(plugin, patch_room / 16 * sizeof *i->patches, "instance");
  i->patch_data = take(plugin, patch_room, "instance");
  status = i->upper == NULL || i->now == NULL || i->scratch_offset == NULL || i->patches == NULL || i->patch_data == NULL
               ? no_memory(error, "an instance")
               : lay_out(i, &o.bounds, error);
  if (status != QUERN_OK) {
    free_instance(i);
    return status;
  }
  memset(&result, 0, sizeof result);
  result.scratch_bytes = i->scratch_bytes;
  result.scratch_alignment = alignment;
  result.max_in_flight = 1;
  write_struct(info, &result, sizeof result);
  pthread_mutex_lock(&plan->device->lock);
  ++plan->instances;
  pthread_mutex_unlock(&plan->device->lock);
  *out = i;
  return QUERN_OK;
}

quern_status instance_destroy(quern_instance *instance, quern_error *error) {
  quern_device *device;
  int busy;
  TRY(check_instance(instance, error));
  device = instance->plan->device;
  pthread_mutex_lock(&device->lock);
  busy = instance->in_flight != 0;
  if (!busy) {
    --instance->plan->instances;
    free_instance(instance);
  }
  pthread_mutex_unlock(&device->lock);
  return busy ? fail(error, QUERN_BUSY, 31, "a run of the instance is in flight; wait for its point") : QUERN_OK;
}

/* Where each value lies, into `places`. Changes nothing of the instance. */
static quern_status bind_values(const quern_instance *i, const quern_prepare_entry *entry, place *places, quern_error *error) {
  const quern_plan *plan = i->plan;
  place scratch = {NULL, 0};
  uint64_t b;
  uint32_t v;
  TRY(check_list(&entry->bindings, QUERN_MIN_SIZE_quern_binding, "bindings", error));
  for (b = 0; b < entry->bindings.count; ++b) {
    quern_binding binding;
    TRY(READ(binding, element(&entry->bindings, b), quern_binding, QUERN_TYPE_BINDING, error));
    v = binding.value;
    if (v >= plan->value_count || plan->values[v].kind == QUERN_VALUE_INTERNAL || places[v].buffer != NULL)
      return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: value %u is no slot of this plan, or is bound twice", v);
    if (binding.flags != 0) return fail(error, QUERN_UNSUPPORTED, 3, "prepare: the flags of a binding are not known here");
    TRY(check_list(&binding.spans, QUERN_MIN_SIZE_quern_span, "spans", error));
    if (binding.spans.count != 1) return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: value %u has several spans; one is needed", v);
    TRY(locate(plan->device, element(&binding.spans, 0), value_bytes(plan, v, i->upper), &places[v], error));
    if (places[v].offset % alignment != 0)
      return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: value %u is not aligned to %d bytes", v, alignment);
  }
  if (i->scratch_bytes != 0) TRY(locate(plan->device, &entry->scratch, i->scratch_bytes, &scratch, error));
  if (scratch.offset % alignment != 0) return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: the scratch is not aligned");
  for (v = 0; v < plan->value_count; ++v) {
    const quern_value *value = &plan->values[v];
    if (places[v].buffer != NULL) continue;
    if (is_alias(value)) { /* lies in what it is a view of */
      const uint64_t room = value_bytes(plan, value->alias_of, i->upper), need = value_bytes(plan, v, i->upper);
      if (value->alias_offset > room || need > room - value->alias_offset)
        return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: value %u reaches beyond value %u", v, value->alias_of);
      places[v].buffer = places[value->alias_of].buffer;
      places[v].offset = places[value->alias_of].offset + value->alias_offset;
    } else if (value->kind == QUERN_VALUE_INTERNAL) {
      places[v].buffer = scratch.buffer;
      places[v].offset = scratch.offset + i->scratch_offset[v];
    } else {
      return fail(error, QUERN_INVALID_ARGUMENT, 16, "prepare: value %u is not bound", v);
    }
  }
  return QUERN_OK;
}

/* Takes the new places of an instance, which hold their buffers, and gives back the old ones. The device is locked. */
static void adopt_places(quern_instance *i, place *places) {
  uint32_t v;
  for (v = 0; v < i->plan->value_count; ++v)
    if (places[v].buffer != NULL) ++places[v].buffer->owners;
  for (v = 0; i->places != NULL && v < i->plan->value_count; ++v) release_buffer(i->places[v].buffer);
  give(i->plan->device->plugin, i->places, i->plan->value_count * sizeof *i->places);
  i->places = places;
  memset(&i->counters, 0, sizeof i->counters);
}

static quern_status prepare_one(const quern_prepare_entry *entry, quern_device *device, place **places, quern_error *error) {
  const quern_instance *i = entry->instance;
  TRY(check_instance(i, error));
  if (i->plan->device != device) return fail(error, QUERN_INVALID_ARGUMENT, 0, "prepare: an instance of another device");
  if (i->in_flight != 0) return fail(error, QUERN_BUSY, 31, "prepare: a run of the instance is in flight; wait for its point");
  *places = take(device->plugin, i->plan->value_count * sizeof **places, "bindings");
  if (*places == NULL) return no_memory(error, "bindings");
  return bind_values(i, entry, *places, error);
}

/* All entries or none. The bindings hold at once, since nothing of these instances is in flight; the call's point is in the queue's order. */
quern_status prepare(quern_device *device, quern_queue *queue, const quern_array *entries, const quern_sync *sync, quern_error *error) {
  quern_status status;
  uint64_t n, made = 0;
  place **places;
  TRY(check_device(device, error));
  TRY(check_list(entries, QUERN_MIN_SIZE_quern_prepare_entry, "prepare entries", error));
  places = take(device->plugin, entries->count * sizeof *places, "bindings");
  if (places == NULL) return no_memory(error, "bindings");
  pthread_mutex_lock(&device->lock);
  status = reserve_jobs(queue, device, 1, error);
  if (status == QUERN_OK) status = fill_job(queue, 0, JOB_NOTHING, sync, error);
  for (; made < entries->count && status == QUERN_OK; ++made) {
    quern_prepare_entry entry;
    status = READ(entry, element(entries, made), quern_prepare_entry, QUERN_TYPE_PREPARE_ENTRY, error);
    if (status == QUERN_OK) status = prepare_one(&entry, device, &places[made], error);
  }
  for (n = 0; n < made; ++n) {
    quern_instance *i = ((const quern_prepare_entry *)element(entries, n))->instance;
    if (status == QUERN_OK) adopt_places(i, places[n]);
    else if (places[n] != NULL) give(device->plugin, places[n], i->plan->value_count * sizeof **places);
  }
  if (status == QUERN_OK) commit_jobs(queue, 1);
  pthread_mutex_unlock(&device->lock);
  give(device->plugin, places, entries->count * sizeof *places);
  return status;
}

static quern_status take_patches(quern_instance *i, const quern_array *patches, quern_error *error) {
  const quern_plan *plan = i->plan;
  uint64_t n;
  i->patch_count = 0;
  i->patch_bytes = 0;
  TRY(check_list(patches, QUERN_MIN_SIZE_quern_patch, "patches", error));
  for (n = 0; n < patches->count; ++n) {
    const quern_patch *p = element(patches, n);
    const uint32_t kind = p->value < plan->value_count ? plan->values[p->value].kind : (uint32_t)QUERN_VALUE_INTERNAL;
    uint64_t room;
    if (kind != QUERN_VALUE_STATE && kind != QUERN_VALUE_INPUT)
      return fail(error, QUERN_INVALID_ARGUMENT, 13, "submit: a patch of value %u, which is neither state nor input", p->value);
    room = value_bytes(plan, p->value, i->upper);
    if (p->offset > room || p->bytes > room - p->offset || (p->data == NULL && p->bytes != 0))
      return fail(error, QUERN_INVALID_ARGUMENT, 13, "submit: a patch of %llu bytes at %llu of value %u, which has %llu",
                  (unsigned long long)p->bytes, (unsigned long long)p->offset, p->value, (unsigned long long)room);
    if (p->bytes > patch_room - i->patch_bytes || i->patch_count == patch_room / 16)
      return fail(error, QUERN_UNSUPPORTED, 13, "submit: more than %d bytes or %d patches for one run", patch_room, patch_room / 16);
    i->patches[i->patch_count] = *p;
    i->patches[i->patch_count].data = i->patch_data + i->patch_bytes;
    if (p->bytes != 0) memcpy(i->patch_data + i->patch_bytes, p->data, p->bytes);
    i->patch_bytes += p->bytes;
    ++i->patch_count;
  }
  return QUERN_OK;
}

/* A run into its instance and its job. The device is locked, and nothing is enqueued yet. */
static quern_status take_run(quern_queue *queue, uint64_t which, const quern_array *runs, quern_error *error) {
  quern_run run;
  quern_instance *i;
  uint64_t before;
  quern_status status;
  TRY(READ(run, element(runs, which), quern_run, QUERN_TYPE_RUN, error));
  i = run.instance;
  TRY(check_instance(i, error));
  if (i->plan->device != queue->device) return fail(error, QUERN_INVALID_ARGUMENT, 0, "submit: an instance of another device");
  if (i->places == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 12, "submit: the instance was not prepared");
  if (run.flags != 0) return fail(error, QUERN_UNSUPPORTED, 3, "submit: the flags of a run are not known here");
  if (i->in_flight != 0) return fail(error, QUERN_BUSY, 12, "submit: a run of the instance is in flight");
  for (before = 0; before < which; ++before)
    if (job_at(queue, before)->instance == i) return fail(error, QUERN_BUSY, 12, "submit: two runs of one instance; one is in flight at most");
  if (run.status != NULL) {
    quern_run_status checked;
    TRY(READ(checked, run.status, quern_run_status, QUERN_TYPE_RUN_STATUS, error));
  }
  memcpy(i->now, i->upper, i->plan->symbol_count * sizeof *i->now);
  TRY(apply_bounds(i->plan, &run.bounds, i->now, error));
  TRY(take_patches(i, &run.patches, error));
  status = fill_job(queue, which, JOB_RUN, run.sync, error);
  job_at(queue, which)->instance = i;
  job_at(queue, which)->behind = which > 0;
  i->status = run.status;
  return status;
}

quern_status submit(quern_device *device, quern_queue *queue, const quern_array *runs, quern_error *error) {
  quern_status status;
  uint64_t n;
  TRY(check_device(device, error));
  TRY(check_list(runs, QUERN_MIN_SIZE_quern_run, "runs", error));
  pthread_mutex_lock(&device->lock);
  status = reserve_jobs(queue, device, runs->count, error);
  for (n = 0; n < runs->count && status == QUERN_OK; ++n) status = take_run(queue, n, runs, error);
  if (status == QUERN_OK) {
    for (n = 0; n < runs->count; ++n) __atomic_store_n(&job_at(queue, n)->instance->cancel, 0, __ATOMIC_RELAXED);
    commit_jobs(queue, runs->count);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* From any thread, in a signal handler too: the flag is all. The next submit forgets it. */
quern_status run_cancel(quern_instance *instance, quern_error *error) {
  TRY(check_instance(instance, error));
  __atomic_store_n(&instance->cancel, 1, __ATOMIC_RELAXED);
  return QUERN_OK;
}

quern_status counters(quern_instance *instance, quern_counters *out, quern_error *error) {
  quern_counters found;
  TRY(check_instance(instance, error));
  TRY(READ(found, out, quern_counters, QUERN_TYPE_COUNTERS, error));
  pthread_mutex_lock(&instance->plan->device->lock);
  found = instance->counters;
  pthread_mutex_unlock(&instance->plan->device->lock);
  write_struct(out, &found, sizeof found);
  return QUERN_OK;
}
