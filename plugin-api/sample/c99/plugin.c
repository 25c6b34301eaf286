/* A plugin in plain C99: copy, matmul and add on an invented device with memory and queues of its own.
 *
 * This file is the note, the helpers, the device and its memory, and the table. queue.c has queues and fences, graph.c what the device says
 * yes to, instance.c bindings and runs, kernels.c the arithmetic. Rules in brackets are those of CONTRACT.md. */
#define _POSIX_C_SOURCE 200809L

#include "c99.h"

#include "quern/sdk/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION "1.0.0"
QUERN_PLUGIN_NOTE("sample_c99", VERSION, QUERN_DEVICE_OTHER, 0, "");

#define TEXT(literal) {literal, sizeof(literal) - 1}

quern_status fail(quern_error *error, quern_status code, uint32_t rule, const char *format, ...) {
  char text[256];
  va_list arguments;
  int size;
  if (error == NULL || error->header.struct_size < QUERN_MIN_SIZE_quern_error) return code;
  va_start(arguments, format);
  size = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (size < 0) size = 0;
  if ((size_t)size >= sizeof text) size = sizeof text - 1;
  error->code = code;
  error->domain = QUERN_DOMAIN_QUERN;
  error->native_code = 0;
  error->flags = 0;
  error->requested = error->available = 0;
  error->heap = error->node = error->slot = QUERN_NONE;
  error->rule = rule;
  error->text_size = (uint64_t)size;
  if (error->text != NULL) memcpy(error->text, text, (uint64_t)size < error->text_capacity ? (size_t)size : (size_t)error->text_capacity);
  return code;
}

static quern_status check_chain(const quern_header *header, const char *name, quern_error *error) {
  int length = 0;
  for (; header != NULL; header = header->next) {
    if ((header->struct_type & QUERN_MUST_UNDERSTAND) != 0)
      return fail(error, QUERN_UNSUPPORTED, 2, "%s carries a struct of type %u that must be understood and is not known here", name,
                  header->struct_type & ~QUERN_MUST_UNDERSTAND);
    if (++length > 64) return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s: more than 64 chained structs", name);
  }
  return QUERN_OK;
}

quern_status read_struct(void *copy_of, uint32_t size, const void *from, uint32_t least, uint32_t type, const char *name,
                         quern_error *error) {
  const quern_header *header = from;
  if (header == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s is null", name);
  if (header->struct_size < least)
    return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s: struct_size is %u, the least is %u", name, header->struct_size, least);
  if ((header->struct_type & ~QUERN_MUST_UNDERSTAND) != type)
    return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s: struct_type is %u, not %u", name, header->struct_type, type);
  memset(copy_of, 0, size);
  memcpy(copy_of, from, header->struct_size < size ? header->struct_size : size);
  return check_chain(header->next, name, error);
}

void write_struct(void *out, const void *value, uint32_t size) {
  quern_header *header = out;
  if (header->struct_size < size) size = header->struct_size;
  memcpy((char *)out + sizeof *header, (const char *)value + sizeof *header, size - sizeof *header);
  header->struct_size = size;
}

quern_status check_list(const quern_array *list, uint64_t least, const char *name, quern_error *error) {
  if (list == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 2, "the list of %s is null", name);
  if (list->count == 0) return QUERN_OK;
  if (list->data == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s: %llu elements at null", name, (unsigned long long)list->count);
  if (list->stride < least || list->count > (uint64_t)PTRDIFF_MAX / list->stride)
    return fail(error, QUERN_INVALID_ARGUMENT, 2, "%s: %llu elements with a stride of %llu, the least is %llu", name,
                (unsigned long long)list->count, (unsigned long long)list->stride, (unsigned long long)least);
  return QUERN_OK;
}

const void *element(const quern_array *list, uint64_t i) { return (const char *)list->data + i * list->stride; }

quern_status alive(const quern_plugin *plugin, quern_error *error) {
  if (plugin == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the plugin is null");
  if (plugin->process != getpid()) return fail(error, QUERN_FORKED, 27, "called after fork: only destroy works there");
  return QUERN_OK;
}

quern_status check_device(const quern_device *device, quern_error *error) {
  if (device == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "the device is null");
  return alive(device->plugin, error);
}

void *take(quern_plugin *plugin, uint64_t bytes, const char *tag) {
  void *memory = plugin->host.allocate(plugin->host.context, bytes == 0 ? 1 : bytes, alignment, tag);
  if (memory != NULL) memset(memory, 0, bytes);
  return memory;
}
void give(quern_plugin *plugin, void *memory, uint64_t bytes) {
  if (memory != NULL) plugin->host.release(plugin->host.context, memory, bytes == 0 ? 1 : bytes, alignment);
}
quern_status no_memory(quern_error *error, const char *what) {
  return fail(error, QUERN_HOST_OUT_OF_MEMORY, 0, "no host memory for %s", what);
}

static quern_status create(const quern_host *host, quern_plugin **out, quern_error *error) {
  quern_host h;
  TRY(READ(h, host, quern_host, QUERN_TYPE_HOST, error));
  if (out == NULL || h.allocate == NULL || h.release == NULL || h.option == NULL)
    return fail(error, QUERN_INVALID_ARGUMENT, 0, "create: no place for the plugin, or a host without allocate, release or option");
  *out = h.allocate(h.context, sizeof **out, alignment, "plugin");
  if (*out == NULL) return no_memory(error, "the plugin");
  (*out)->host = h;
  (*out)->process = getpid();
  return QUERN_OK;
}

static void destroy(quern_plugin *plugin) {
  if (plugin != NULL) plugin->host.release(plugin->host.context, plugin, sizeof *plugin, alignment);
}

static quern_status device_count(quern_plugin *plugin, uint32_t *count, quern_error *error) {
  TRY(alive(plugin, error));
  if (count == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "device_count: no place for the count");
  *count = 1;
  return QUERN_OK;
}

/* The option "memory", in bytes, so that a test can make the device small. */
static uint64_t device_memory(const quern_plugin *plugin) {
  char text[32] = {0};
  const uint64_t size = plugin->host.option(plugin->host.context, "memory", text, sizeof text - 1);
  const uint64_t bytes = size < sizeof text ? strtoull(text, NULL, 10) : 0;
  return bytes == 0 ? (uint64_t)4 << 30 : bytes;
}

static quern_status check_index(uint32_t index, const char *what, quern_error *error) {
  return index == 0 ? QUERN_OK : fail(error, QUERN_NOT_FOUND, 0, "%s %u is not there, there is one", what, index);
}

/* Neither SYNCHRONOUS nor HOST_MEMORY: the host makes queues, fences and buffers. */
static quern_status device_info(quern_plugin *plugin, uint32_t index, quern_device_info *out, quern_error *error) {
  quern_device_info info;
  TRY(alive(plugin, error));
  TRY(check_index(index, "device", error));
  TRY(READ(info, out, quern_device_info, QUERN_TYPE_DEVICE_INFO, error));
  memset(&info, 0, sizeof info);
  info.device_class = QUERN_DEVICE_OTHER;
  info.name = (quern_string)TEXT("C99 sample device");
  info.architecture = (quern_string)TEXT("portable");
  info.memory_alignment = alignment;
  info.max_allocation = device_memory(plugin);
  info.heap_count = 1;
  info.numa_node = QUERN_NONE;
  write_struct(out, &info, sizeof info);
  return QUERN_OK;
}

static quern_status device_open(quern_plugin *plugin, uint32_t index, quern_device **out, quern_error *error) {
  quern_device *device;
  pthread_condattr_t clock;
  TRY(alive(plugin, error));
  TRY(check_index(index, "device", error));
  if (out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "device_open: no place for the device");
  device = take(plugin, sizeof *device, "device");
  if (device == NULL) return no_memory(error, "the device");
  device->plugin = plugin;
  device->total = device_memory(plugin);
  device->limit = UINT64_MAX;
  pthread_mutex_init(&device->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&device->changed, &clock);
  pthread_condattr_destroy(&clock);
  *out = device;
  return QUERN_OK;
}

static quern_status device_close(quern_device *device, quern_error *error) {
  TRY(check_device(device, error));
  if (device->children != 0) return fail(error, QUERN_BUSY, 27, "device_close: %u children are alive", device->children);
  pthread_cond_destroy(&device->changed);
  pthread_mutex_destroy(&device->lock);
  give(device->plugin, device, sizeof *device);
  return QUERN_OK;
}

static quern_status heap_info(quern_device *device, uint32_t heap, quern_heap_info *out, quern_error *error) {
  quern_heap_info info;
  TRY(check_device(device, error));
  TRY(check_index(heap, "heap", error));
  TRY(READ(info, out, quern_heap_info, QUERN_TYPE_HEAP_INFO, error));
  memset(&info, 0, sizeof info);
  info.flags = QUERN_HEAP_DEVICE_LOCAL;
  info.total_figure = info.budget_figure = info.used_figure = QUERN_FIGURE_EXACT;
  pthread_mutex_lock(&device->lock);
  info.total = device->total;
  info.budget = device->limit < device->total ? device->limit : device->total;
  info.used = device->used;
  pthread_mutex_unlock(&device->lock);
  write_struct(out, &info, sizeof info);
  return QUERN_OK;
}

static quern_status memory_limit(quern_device *device, uint32_t heap, uint64_t bytes, quern_error *error) {
  TRY(check_device(device, error));
  TRY(check_index(heap, "heap", error));
  pthread_mutex_lock(&device->lock);
  device->limit = bytes;
  pthread_mutex_unlock(&device->lock);
  return QUERN_OK;
}

static quern_status buffer_create(quern_device *device, const quern_buffer_options *options, uint64_t bytes, quern_buffer **out,
                                  quern_error *error) {
  quern_buffer *buffer;
  uint64_t budget, used;
  TRY(check_device(device, error));
  if (out == NULL) return fail(error, QUERN_INVALID_ARGUMENT, 0, "buffer_create: no place for the buffer");
  if (options != NULL) {
    quern_buffer_options o;
    TRY(READ(o, options, quern_buffer_options, QUERN_TYPE_BUFFER_OPTIONS, error));
    TRY(check_index(o.heap, "heap", error));
    if ((o.usage & ~15u) != 0) return fail(error, QUERN_UNSUPPORTED, 3, "buffer_create: the usage %u has a bit that is not known here", o.usage);
  }
  pthread_mutex_lock(&device->lock);
  budget = device->limit < device->total ? device->limit : device->total;
  used = device->used;
  if (used <= budget && bytes <= budget - used) device->used += bytes, ++device->children;
  pthread_mutex_unlock(&device->lock);
  if (used > budget || bytes > budget - used) {
    fail(error, QUERN_OUT_OF_MEMORY, 23, "%llu bytes asked for, %llu of %llu in use", (unsigned long long)bytes, (unsigned long long)used,
         (unsigned long long)budget);
    if (error != NULL && error->header.struct_size >= QUERN_MIN_SIZE_quern_error)
      error->requested = bytes, error->available = used > budget ? 0 : budget - used, error->heap = 0;
    return QUERN_OUT_OF_MEMORY;
  }
  buffer = take(device->plugin, sizeof *buffer, "buffer");
  if (buffer != NULL)
    buffer->memory = device->plugin->host.allocate(device->plugin->host.context, bytes == 0 ? 1 : bytes, alignment, "device memory");
  if (buffer == NULL || buffer->memory == NULL) {
    give(device->plugin, buffer, sizeof *buffer);
    pthread_mutex_lock(&device->lock);
    device->used -= bytes;
    --device->children;
    pthread_mutex_unlock(&device->lock);
    return no_memory(error, "a buffer");
  }
  buffer->device = device;
  buffer->bytes = bytes;
  buffer->owners = 1;
  *out = buffer;
  return QUERN_OK;
}

void release_buffer(quern_buffer *buffer) {
  if (buffer == NULL || --buffer->owners != 0) return;
  buffer->device->used -= buffer->bytes;
  give(buffer->device->plugin, buffer->memory, buffer->bytes);
  give(buffer->device->plugin, buffer, sizeof *buffer);
}

quern_status locate(quern_device *device, const quern_span *span, uint64_t bytes, place *out, quern_error *error) {
  if (span == NULL || span->buffer == NULL || span->host != NULL)
    return fail(error, QUERN_INVALID_ARGUMENT, 16, "a span without a buffer; this device does not see host memory");
  if (span->buffer->device != device) return fail(error, QUERN_INVALID_ARGUMENT, 16, "the buffer is of another device");
  if (span->offset > span->buffer->bytes || span->bytes > span->buffer->bytes - span->offset || bytes > span->bytes)
    return fail(error, QUERN_INVALID_ARGUMENT, 16, "%llu bytes in a span of %llu at %llu of a buffer of %llu", (unsigned long long)bytes,
                (unsigned long long)span->bytes, (unsigned long long)span->offset, (unsigned long long)span->buffer->bytes);
  out->buffer = span->buffer;
  out->offset = span->offset;
  return QUERN_OK;
}

unsigned char *address(place at) { return at.buffer->memory + at.offset; }

/* Proves that the device works: bytes go up and come back through a queue [C8]. */
static quern_status round_trip(quern_device *device, quern_error *error) {
  static const unsigned char sent[4] = {1, 2, 3, 4};
  unsigned char found[4] = {0};
  quern_buffer *buffer = NULL;
  quern_queue *queue = NULL;
  quern_fence *fence = NULL;
  quern_status status = buffer_create(device, NULL, sizeof sent, &buffer, error);
  if (status == QUERN_OK) status = queue_create(device, QUERN_QUEUE_TRANSFER, &queue, error);
  if (status == QUERN_OK) status = fence_create(device, 0, 0, &fence, error);
  if (status == QUERN_OK) {
    quern_span span = {0};
    quern_sync sync = {{sizeof sync, QUERN_TYPE_SYNC, NULL}, {0}, {0}};
    quern_point point;
    span.buffer = buffer;
    span.bytes = sizeof sent;
    point.fence = fence;
    point.value = 1;
    sync.signal.data = &point;
    sync.signal.count = 1;
    sync.signal.stride = sizeof point;
    status = upload(device, queue, &span, sent, sizeof sent, NULL, error);
    if (status == QUERN_OK) status = download(device, queue, found, &span, sizeof found, &sync, error);
    if (status == QUERN_OK) status = fence_wait(device, &sync.signal, 0, UINT64_MAX, error);
  }
  if (status == QUERN_OK && memcmp(sent, found, sizeof sent) != 0) status = QUERN_INTERNAL;
  if (fence != NULL) fence_destroy(fence, NULL);
  if (queue != NULL) queue_destroy(queue, NULL);
  if (buffer != NULL) buffer_destroy(buffer, NULL);
  return status;
}

static quern_status probe(quern_plugin *plugin, quern_probe_report *report, quern_error *error) {
  quern_probe_report result;
  quern_device *device = NULL;
  quern_status status;
  TRY(alive(plugin, error));
  TRY(READ(result, report, quern_probe_report, QUERN_TYPE_PROBE_REPORT, error));
  TRY(device_open(plugin, 0, &device, error));
  status = round_trip(device, error);
  device_close(device, NULL);
  TRY(status);
  result.usable = 1;
  result.reason_count = 0;
  write_struct(report, &result, sizeof result);
  return QUERN_OK;
}

static const quern_plugin_api table = {
    .header = {sizeof(quern_plugin_api), QUERN_TYPE_PLUGIN_API, NULL},
    .abi_minor = QUERN_ABI_MINOR,
    .opset_version = QUERN_OPSET_VERSION,
    .format_table_version = QUERN_FORMAT_TABLE_VERSION,
    .id = TEXT("sample_c99"),
    .version = TEXT(VERSION),
    .build = TEXT("sample_c99 " VERSION),
    .create = create,
    .destroy = destroy,
    .probe = probe,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .heap_info = heap_info,
    .memory_limit = memory_limit,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fence_create = fence_create,
    .fence_destroy = fence_destroy,
    .fence_query = fence_query,
    .fence_wait = fence_wait,
    .fence_signal = fence_signal,
    .fence_info = fence_info,
    .support = support,
    .compile = compile,
    .plan_info = plan_info,
    .plan_destroy = plan_destroy,
    .instance_create = instance_create,
    .instance_destroy = instance_destroy,
    .prepare = prepare,
    .submit = submit,
    .run_cancel = run_cancel,
    .counters = counters,
};

/* The one exported function. What stays null in the table the host does without [C1] [C24] [C25]. */
__attribute__((visibility("default"))) quern_status quern_plugin_query_v1(const quern_query *query, quern_plugin_api *out,
                                                                          quern_error *error);
quern_status quern_plugin_query_v1(const quern_query *query, quern_plugin_api *out, quern_error *error) {
  quern_query asked;
  quern_plugin_api mine = table;
  TRY(READ(asked, query, quern_query, QUERN_TYPE_QUERY, error));
  if (out == NULL || out->header.struct_size < QUERN_MIN_SIZE_quern_plugin_api || out->header.struct_type != QUERN_TYPE_PLUGIN_API)
    return fail(error, QUERN_INVALID_ARGUMENT, 2, "quern_plugin_api is null, too small or of another type");
  if (asked.abi_minor_min > QUERN_ABI_MINOR)
    return fail(error, QUERN_VERSION, 25, "the host needs plugin ABI %u.%u or newer, this plugin has %u.%u", QUERN_ABI_EPOCH,
                asked.abi_minor_min, QUERN_ABI_EPOCH, QUERN_ABI_MINOR);
  if (asked.abi_minor < mine.abi_minor) mine.abi_minor = asked.abi_minor;
  write_struct(out, &mine, sizeof mine);
  return QUERN_OK;
}
