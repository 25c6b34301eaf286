/* Queues and fences of the C99 sample: each queue is a thread that works through a ring of jobs. What has to stay alive is C31. */
#define _POSIX_C_SOURCE 200809L

#include "c99.h"

#include <string.h>
#include <time.h>

static int reached(const quern_point *p) { return p->fence->value >= p->value; }

static int all_reached(const quern_point *points, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; ++i)
    if (!reached(&points[i])) return 0;
  return 1;
}

static int has_failed(const quern_point *p) {
  uint32_t i;
  for (i = 0; i < p->fence->failures && i < most_failures; ++i)
    if (p->fence->failed[i] == p->value) return 1;
  return 0;
}

job *job_at(quern_queue *queue, uint64_t which) { return &queue->ring[(queue->tail + which) % ring_size]; }

/* One job, unlocked; 0: it failed, and so will what waits for its points. */
static int work_on(job *j, int dependencies_fine) {
  quern_run_status status;
  switch (j->kind) {
    case JOB_UPLOAD:
      if (dependencies_fine && j->bytes != 0) memcpy(address(j->to), j->host_from, j->bytes);
      return dependencies_fine;
    case JOB_DOWNLOAD:
      if (dependencies_fine && j->bytes != 0) memcpy(j->host_to, address(j->from), j->bytes);
      return dependencies_fine;
    case JOB_COPY:
      if (dependencies_fine && j->bytes != 0) memcpy(address(j->to), address(j->from), j->bytes);
      return dependencies_fine;
    case JOB_RUN:
      memset(&status, 0, sizeof status);
      status.node = status.op = QUERN_NONE;
      if (dependencies_fine) perform(j->instance, &status);
      else status.code = QUERN_DEPENDENCY_FAILED;
      if (j->instance->status != NULL) write_struct(j->instance->status, &status, sizeof status);
      return status.code == QUERN_OK;
    default: return dependencies_fine;
  }
}

static void *work(void *context) {
  quern_queue *queue = context;
  quern_device *device = queue->device;
  int fine = 1;
  pthread_mutex_lock(&device->lock);
  for (;;) {
    job *j;
    uint32_t i;
    while (!queue->stop && queue->head == queue->tail) pthread_cond_wait(&device->changed, &device->lock);
    if (queue->head == queue->tail) break;
    j = &queue->ring[queue->head % ring_size];
    while (!all_reached(j->waits, j->wait_count)) pthread_cond_wait(&device->changed, &device->lock);
    if (!j->behind) fine = 1;
    for (i = 0; i < j->wait_count; ++i) fine = fine && !has_failed(&j->waits[i]);
    pthread_mutex_unlock(&device->lock);
    fine = work_on(j, fine);
    pthread_mutex_lock(&device->lock);
    if (j->kind == JOB_RUN) --j->instance->in_flight;
    ++queue->head; /* done from here on: its point is reached, and what it named may go */
    for (i = 0; i < j->signal_count; ++i) {
      quern_fence *fence = j->signals[i].fence;
      if (!fine) fence->failed[fence->failures++ % most_failures] = j->signals[i].value;
      if (fence->value < j->signals[i].value) fence->value = j->signals[i].value;
    }
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

static int names_buffer(const job *j, const quern_buffer *buffer) {
  uint32_t v;
  if (j->kind != JOB_RUN) return j->to.buffer == buffer || j->from.buffer == buffer;
  for (v = 0; v < j->instance->plan->value_count; ++v)
    if (j->instance->places[v].buffer == buffer) return 1;
  return 0;
}

static int names_fence(const job *j, const quern_fence *fence) {
  uint32_t i;
  for (i = 0; i < j->wait_count; ++i)
    if (j->waits[i].fence == fence) return 1;
  for (i = 0; i < j->signal_count; ++i)
    if (j->signals[i].fence == fence) return 1;
  return 0;
}

static int in_flight(const quern_device *device, const quern_buffer *buffer, const quern_fence *fence) {
  const quern_queue *queue;
  uint64_t at;
  for (queue = device->queues; queue != NULL; queue = queue->next)
    for (at = queue->head; at != queue->tail; ++at) {
      const job *j = &queue->ring[at % ring_size];
      if (buffer != NULL ? names_buffer(j, buffer) : names_fence(j, fence)) return 1;
    }
  return 0;
}

quern_status reserve_jobs(quern_queue *queue, quern_device *device, uint64_t count, quern_error *error) {
  if (queue == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 31, "no queue was given; this device is not synchronous");
  if (queue->device != device) return fail(error, QUERN_INVALID_ARGUMENT, 18, "the queue is of another device");
  if (count > ring_size) return fail(error, QUERN_UNSUPPORTED, 18, "%llu runs at once; a queue holds %d", (unsigned long long)count, ring_size);
  if (queue->tail - queue->head + count > ring_size) return fail(error, QUERN_BUSY, 31, "the queue is full");
  return QUERN_OK;
}

static quern_status take_points(const quern_array *list, const quern_device *device, int waits, quern_point *to, uint32_t *count,
                                quern_error *error) {
  uint64_t i;
  TRY(check_list(list, QUERN_MIN_SIZE_quern_point, "points", error));
  if (list->count > most_points) return fail(error, QUERN_UNSUPPORTED, 18, "more than %d points for one call", most_points);
  for (i = 0; i < list->count; ++i) {
    memcpy(&to[i], element(list, i), sizeof to[i]);
    if (to[i].fence == NULL || to[i].fence->device != device)
      return fail(error, QUERN_INVALID_ARGUMENT, 18, "a point of no fence of this device");
    if (waits && (to[i].fence->flags & QUERN_FENCE_HOST_SIGNAL) == 0 && to[i].fence->promised < to[i].value)
      return fail(error, QUERN_INVALID_ARGUMENT, 18, "a wait for %llu, of which %llu is the last that was enqueued",
                  (unsigned long long)to[i].value, (unsigned long long)to[i].fence->promised);
  }
  *count = (uint32_t)list->count;
  return QUERN_OK;
}

quern_status fill_job(quern_queue *queue, uint64_t which, job_kind kind, const quern_sync *sync, quern_error *error) {
  job *j = job_at(queue, which);
  quern_sync points;
  memset(j, 0, sizeof *j);
  j->kind = kind;
  if (sync == NULL) return QUERN_OK;
  TRY(READ(points, sync, quern_sync, QUERN_TYPE_SYNC, error));
  TRY(take_points(&points.wait, queue->device, 1, j->waits, &j->wait_count, error));
  return take_points(&points.signal, queue->device, 0, j->signals, &j->signal_count, error);
}

void commit_jobs(quern_queue *queue, uint64_t count) {
  for (; count != 0; --count, ++queue->tail) {
    const job *j = job_at(queue, 0);
    uint32_t i;
    for (i = 0; i < j->signal_count; ++i)
      if (j->signals[i].fence->promised < j->signals[i].value) j->signals[i].fence->promised = j->signals[i].value;
    if (j->kind == JOB_RUN) ++j->instance->in_flight;
  }
  pthread_cond_broadcast(&queue->device->changed);
}

/* A copy of any kind: of the four ends two are null. */
static quern_status enqueue_copy(quern_device *device, quern_queue *queue, job_kind kind, const quern_span *to, const quern_span *from,
                                 const void *host_from, void *host_to, uint64_t bytes, const quern_sync *sync, quern_error *error) {
  place target = {NULL, 0}, source = {NULL, 0};
  quern_status status;
  TRY(check_device(device, error));
  if (kind != JOB_DOWNLOAD) TRY(locate(device, to, bytes, &target, error));
  if (kind != JOB_UPLOAD) TRY(locate(device, from, bytes, &source, error));
  if (bytes != 0 && kind != JOB_COPY && host_from == NULL && host_to == NULL)
    return fail(error, QUERN_INVALID_ARGUMENT, 0, "the host's end of a copy is null");
  if (kind == JOB_COPY && target.buffer == source.buffer && target.offset < source.offset + bytes && source.offset < target.offset + bytes)
    return fail(error, QUERN_INVALID_ARGUMENT, 31, "the ranges of the copy have bytes in common");
  pthread_mutex_lock(&device->lock);
  status = reserve_jobs(queue, device, 1, error);
  if (status == QUERN_OK) status = fill_job(queue, 0, kind, sync, error);
  if (status == QUERN_OK) {
    job *j = job_at(queue, 0);
    j->to = target;
    j->from = source;
    j->host_from = host_from;
    j->host_to = host_to;
    j->bytes = bytes;
    commit_jobs(queue, 1);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

quern_status upload(quern_device *device, quern_queue *queue, const quern_span *to, const void *from, uint64_t bytes, const quern_sync *sync,
                    quern_error *error) {
  return enqueue_copy(device, queue, JOB_UPLOAD, to, NULL, from, NULL, bytes, sync, error);
}
quern_status download(quern_device *device, quern_queue *queue, void *to, const quern_span *from, uint64_t bytes, const quern_sync *sync,
                      quern_error *error) {
  return enqueue_copy(device, queue, JOB_DOWNLOAD, NULL, from, NULL, to, bytes, sync, error);
}
quern_status copy(quern_device *device, quern_queue *queue, const quern_span *to, const quern_span *from, uint64_t bytes,
                  const quern_sync *sync, quern_error *error) {
  return enqueue_copy(device, queue, JOB_COPY, to, from, NULL, NULL, bytes, sync, error);
}

quern_status queue_create(quern_device *device, uint32_t kind, quern_queue **out, quern_error *error) {
  quern_queue *queue;
  TRY(check_device(device, error));
  if (out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "queue_create: no place for the queue");
  if (kind != QUERN_QUEUE_COMPUTE && kind != QUERN_QUEUE_TRANSFER) return fail(error, QUERN_UNSUPPORTED, 3, "queue kind %u", kind);
  queue = take(device->plugin, sizeof *queue, "queue");
  if (queue == NULL) return no_memory(error, "a queue");
  queue->device = device;
  if (pthread_create(&queue->thread, NULL, work, queue) != 0) {
    give(device->plugin, queue, sizeof *queue);
    return fail(error, QUERN_HOST_OUT_OF_MEMORY, 0, "no thread for a queue");
  }
  pthread_mutex_lock(&device->lock);
  queue->next = device->queues;
  device->queues = queue;
  ++device->children;
  pthread_mutex_unlock(&device->lock);
  *out = queue;
  return QUERN_OK;
}

quern_status queue_destroy(quern_queue *queue, quern_error *error) {
  quern_device *device;
  quern_queue **link;
  if (queue == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the queue is null");
  device = queue->device;
  TRY(check_device(device, error));
  pthread_mutex_lock(&device->lock);
  if (queue->head != queue->tail) {
    pthread_mutex_unlock(&device->lock);
    return fail(error, QUERN_BUSY, 31, "the queue has work that is not done; wait for its point");
  }
  for (link = &device->queues; *link != queue; link = &(*link)->next) {}
  *link = queue->next;
  --device->children;
  queue->stop = 1;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  pthread_join(queue->thread, NULL);
  give(device->plugin, queue, sizeof *queue);
  return QUERN_OK;
}

quern_status buffer_destroy(quern_buffer *buffer, quern_error *error) {
  quern_device *device;
  quern_status status = QUERN_OK;
  if (buffer == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the buffer is null");
  device = buffer->device;
  TRY(check_device(device, error));
  pthread_mutex_lock(&device->lock);
  if (in_flight(device, buffer, NULL)) {
    status = fail(error, QUERN_BUSY, 31, "work that is not done names the buffer; wait for its point");
  } else {
    --device->children;
    release_buffer(buffer);
  }
  pthread_mutex_unlock(&device->lock);
  return status;
}

quern_status fence_create(quern_device *device, uint64_t initial, uint32_t flags, quern_fence **out, quern_error *error) {
  quern_fence *fence;
  TRY(check_device(device, error));
  if (out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "fence_create: no place for the fence");
  if ((flags & ~(uint32_t)QUERN_FENCE_HOST_SIGNAL) != 0)
    return fail(error, QUERN_UNSUPPORTED, 3, "fence_create: the flags %u have a bit that is not known here", flags);
  fence = take(device->plugin, sizeof *fence, "fence");
  if (fence == NULL) return no_memory(error, "a fence");
  fence->device = device;
  fence->flags = flags;
  fence->value = fence->promised = initial;
  pthread_mutex_lock(&device->lock);
  ++device->children;
  pthread_mutex_unlock(&device->lock);
  *out = fence;
  return QUERN_OK;
}

/* Locks the device of a fence of this process. */
static quern_status lock_fence(quern_fence *fence, quern_error *error) {
  if (fence == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the fence is null");
  TRY(check_device(fence->device, error));
  pthread_mutex_lock(&fence->device->lock);
  return QUERN_OK;
}

quern_status fence_destroy(quern_fence *fence, quern_error *error) {
  quern_device *device;
  int busy;
  TRY(lock_fence(fence, error));
  device = fence->device;
  busy = in_flight(device, NULL, fence);
  if (!busy) --device->children;
  pthread_mutex_unlock(&device->lock);
  if (busy) return fail(error, QUERN_BUSY, 31, "work that is not done names the fence; wait for its point");
  give(device->plugin, fence, sizeof *fence);
  return QUERN_OK;
}

quern_status fence_query(quern_fence *fence, uint64_t *value, quern_error *error) {
  if (value == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "fence_query: no place for the value");
  TRY(lock_fence(fence, error));
  *value = fence->value;
  pthread_mutex_unlock(&fence->device->lock);
  return QUERN_OK;
}

quern_status fence_info(quern_fence *fence, quern_fence_info *out, quern_error *error) {
  quern_fence_info info;
  TRY(READ(info, out, quern_fence_info, QUERN_TYPE_FENCE_INFO, error));
  memset(&info, 0, sizeof info);
  TRY(lock_fence(fence, error));
  info.value = fence->value;
  info.flags = fence->flags;
  pthread_mutex_unlock(&fence->device->lock);
  write_struct(out, &info, sizeof info);
  return QUERN_OK;
}

static int enough(const quern_array *points, uint32_t any) {
  uint64_t i, count = 0;
  for (i = 0; i < points->count; ++i) count += reached(element(points, i)) ? 1 : 0;
  return any && points->count != 0 ? count != 0 : count == points->count;
}

quern_status fence_wait(quern_device *device, const quern_array *points, uint32_t any, uint64_t nanoseconds, quern_error *error) {
  struct timespec until;
  uint64_t i;
  int done, late = 0;
  TRY(check_device(device, error));
  TRY(check_list(points, QUERN_MIN_SIZE_quern_point, "points", error));
  for (i = 0; i < points->count; ++i)
    if (((const quern_point *)element(points, i))->fence == NULL)
      return fail(error, QUERN_INVALID_ARGUMENT, 18, "fence_wait: point %llu has no fence", (unsigned long long)i);
  if (nanoseconds > (uint64_t)1 << 60) nanoseconds = (uint64_t)1 << 60;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(nanoseconds / 1000000000u);
  until.tv_nsec += (long)(nanoseconds % 1000000000u);
  if (until.tv_nsec >= 1000000000l) ++until.tv_sec, until.tv_nsec -= 1000000000l;
  pthread_mutex_lock(&device->lock);
  while (!(done = enough(points, any)) && !late) late = pthread_cond_timedwait(&device->changed, &device->lock, &until) != 0;
  pthread_mutex_unlock(&device->lock);
  return done ? QUERN_OK : fail(error, QUERN_TIMEOUT, 0, "not reached within %llu ns", (unsigned long long)nanoseconds);
}

quern_status fence_signal(quern_fence *fence, uint64_t value, quern_error *error) {
  quern_status status = QUERN_OK;
  TRY(lock_fence(fence, error));
  if ((fence->flags & QUERN_FENCE_HOST_SIGNAL) == 0)
    status = fail(error, QUERN_INVALID_ARGUMENT, 18, "only a HOST_SIGNAL fence is signalled by the host");
  else if (value < fence->value)
    status = fail(error, QUERN_INVALID_ARGUMENT, 31, "a fence never goes back, from %llu to %llu", (unsigned long long)fence->value,
                  (unsigned long long)value);
  else fence->value = fence->promised = value;
  pthread_cond_broadcast(&fence->device->changed);
  pthread_mutex_unlock(&fence->device->lock);
  return status;
}
