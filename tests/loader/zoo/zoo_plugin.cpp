// A fake plugin of the zoo: one small source, and ZOO_... definitions that make it good or bad in one way.
//
// It knows the ABI headers and nothing else of the tree, so that it fails as a stranger's plugin would.
#include "quern/quern_plugin_api.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>
#include <string>

// What may go wrong, and in which stage.
#define ZOO_NOTHING 0
#define ZOO_CONSTRUCTOR_TRAPS 1
#define ZOO_CONSTRUCTOR_HANGS 2
#define ZOO_CONSTRUCTOR_EXITS 3
#define ZOO_UNDEFINED_SYMBOL 4
#define ZOO_MISSING_LIBRARY 5
#define ZOO_NO_ENTRY 10
#define ZOO_ENTRY_THROWS 11
#define ZOO_ENTRY_REFUSES 12
#define ZOO_ENTRY_CRASHES 13
#define ZOO_NULL_FUNCTION 14
#define ZOO_OTHER_ID 15
#define ZOO_SMALL_TABLE 16
#define ZOO_HIGH_MINOR 17
#define ZOO_FOREIGN_OP_SET 18
#define ZOO_VERSION_WITHOUT_DATA 19
#define ZOO_NO_FORMAT_TABLE 38
#define ZOO_NEWER_OP_SET 39
#define ZOO_CREATE_FAILS 20
#define ZOO_PROBE_FAILS 21
#define ZOO_PROBE_CRASHES 22
#define ZOO_PROBE_HANGS 23
#define ZOO_PROBE_THROWS 24
#define ZOO_PROBE_MISSES_LIBRARY 25
#define ZOO_PROBE_LIMITED 26
#define ZOO_PROBE_PRINTS 27
#define ZOO_PROBE_NAMES_FAILED_DEVICE 28
#define ZOO_PROBE_HIDES_FAILED_DEVICE 29
#define ZOO_ONE_DEVICE_CANNOT_OPEN 30
#define ZOO_PROBE_LIES 31
#define ZOO_BAD_DEVICE_INFO 32
#define ZOO_OPEN_FAILS_IN_HOST 33
#define ZOO_PROBE_FORKS 34
#define ZOO_PROBE_IS_SLOW 35
#define ZOO_PROBE_SPINS 36
#define ZOO_HOSTILE_TEXT 37
#define ZOO_PROBE_MEETS 40
#define ZOO_NO_QUEUE 41
#define ZOO_WIDE_ALIGNMENT 42

#ifndef ZOO_FAULT
#define ZOO_FAULT ZOO_NOTHING
#endif
/// What a terminal obeys, behind every text of the plugin: a title, a cleared screen, C1, directions, line breaks.
#if ZOO_FAULT == ZOO_HOSTILE_TEXT
#define ZOO_PLANT \
  "\x1b]0;pwned\x07\x1b[2J\xc2\x9b" \
  "2J\xe2\x80\xae\xe2\x80\xa8\r\nquern: forged\x7f"
#else
#define ZOO_PLANT ""
#endif
#ifndef ZOO_VERSION
#define ZOO_VERSION "1.0"
#endif
#ifndef ZOO_CLASS
#define ZOO_CLASS QUERN_DEVICE_CPU
#endif
#ifndef ZOO_EPOCHS
#define ZOO_EPOCHS (1u << QUERN_ABI_EPOCH)
#endif
#ifndef ZOO_MINOR
#define ZOO_MINOR QUERN_ABI_MINOR
#endif
#ifndef ZOO_MIN_HOST
#define ZOO_MIN_HOST 0
#endif
#ifndef ZOO_HASH
#define ZOO_HASH QUERN_HEADER_HASH
#endif
#ifndef ZOO_FEATURES
#define ZOO_FEATURES 0
#endif
#ifndef ZOO_DEVICES
#define ZOO_DEVICES 1
#endif
#ifndef ZOO_VENDOR
#define ZOO_VENDOR 0
#endif
#ifndef ZOO_PCI_BUS
#define ZOO_PCI_BUS ""
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ZOO_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define ZOO_SANITIZER 2
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZOO_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define ZOO_SANITIZER 2
#endif
#endif
#ifndef ZOO_SANITIZER
#define ZOO_SANITIZER 0
#endif

#ifndef ZOO_NO_NOTE
#ifndef ZOO_DEPENDENCIES
#define ZOO_DEPENDENCIES "libzoo_driver.so.1=zoo-driver-package;"
#endif
namespace {
struct __attribute__((packed)) NoteRecord {
  uint32_t name_size, descriptor_size, type;
  char name[8];
  quern_note note;
  char dependencies[sizeof ZOO_DEPENDENCIES - 1 + (4 - (sizeof ZOO_DEPENDENCIES - 1) % 4) % 4];
};
constexpr NoteRecord make_note() {
  NoteRecord r{};
  r.name_size = sizeof QUERN_NOTE_NAME;
  r.descriptor_size = sizeof(quern_note) + sizeof r.dependencies;
  r.type = QUERN_NOTE_TYPE;
  for (unsigned i = 0; i < sizeof QUERN_NOTE_NAME; ++i) r.name[i] = QUERN_NOTE_NAME[i];
  quern_note note{};
  note.magic = QUERN_NOTE_MAGIC;
  note.note_size = sizeof note;
  note.epochs = ZOO_EPOCHS;
  note.abi_minor = ZOO_MINOR;
  note.min_host_minor = ZOO_MIN_HOST;
  note.device_class = ZOO_CLASS;
  note.cpu_features = ZOO_FEATURES;
  note.header_hash = ZOO_HASH;
  note.sanitizer = ZOO_SANITIZER;
  note.dependencies_size = sizeof ZOO_DEPENDENCIES - 1;
  for (unsigned i = 0; i < sizeof ZOO_ID; ++i) note.id[i] = ZOO_ID[i];
  for (unsigned i = 0; i < sizeof ZOO_VERSION; ++i) note.version[i] = ZOO_VERSION[i];
  r.note = note;
  for (unsigned i = 0; i + 1 < sizeof ZOO_DEPENDENCIES; ++i) r.dependencies[i] = ZOO_DEPENDENCIES[i];
  return r;
}
}  // namespace
extern "C" __attribute__((used, section(QUERN_NOTE_SECTION), aligned(4))) constexpr NoteRecord quern_plugin_note = make_note();
#endif

#if ZOO_FAULT == ZOO_UNDEFINED_SYMBOL
extern "C" int zoo_nobody_defines_this();
extern "C" int zoo_uses_it() { return zoo_nobody_defines_this(); }
#endif
#if ZOO_FAULT == ZOO_MISSING_LIBRARY
extern "C" int zoo_missing_function();
extern "C" __attribute__((visibility("default"))) int zoo_uses_library() { return zoo_missing_function(); }
#endif

#if ZOO_FAULT == ZOO_CONSTRUCTOR_TRAPS || ZOO_FAULT == ZOO_CONSTRUCTOR_HANGS || ZOO_FAULT == ZOO_CONSTRUCTOR_EXITS
__attribute__((constructor)) static void construct() {
#if ZOO_FAULT == ZOO_CONSTRUCTOR_TRAPS
  ::raise(SIGILL);
#elif ZOO_FAULT == ZOO_CONSTRUCTOR_EXITS
  ::_exit(3);
#else
  for (;;) ::pause();
#endif
}
#endif

struct quern_plugin {
  const quern_host* host;
  bool probed;
};
struct quern_device {
  quern_plugin* plugin;
};

namespace {

quern_string text(const char* s) { return {s, std::strlen(s)}; }

quern_status fail(quern_error* error, quern_status status, const char* why) {
  if (error && error->text) {
    std::snprintf(error->text, error->text_capacity, "%s", why);
    error->text_size = std::strlen(why);
  }
  return status;
}

quern_status create(const quern_host* host, quern_plugin** out, quern_error* error) {
#if ZOO_FAULT == ZOO_CREATE_FAILS
  (void)host;
  (void)out;
  return fail(error, QUERN_HOST_OUT_OF_MEMORY, "no room for the zoo");
#else
  char word[32] = "";
  const bool told = host->option(host->context, "word", word, sizeof word) < sizeof word;
  if (told && std::strcmp(word, "no") == 0) return fail(error, QUERN_INVALID_ARGUMENT, "the word is no");
  void* memory = host->allocate(host->context, sizeof(quern_plugin), alignof(quern_plugin), "plugin");
  *out = new (memory) quern_plugin{host, false};
  host->log(host->context, QUERN_LOG_INFO, text("life" ZOO_PLANT), text("created" ZOO_PLANT));
  if (told) host->log(host->context, QUERN_LOG_INFO, text("word"), text(word));
  return QUERN_OK;
#endif
}

void destroy(quern_plugin* plugin) {
  const quern_host* host = plugin->host;
  host->log(host->context, QUERN_LOG_INFO, text("life"), text("destroyed"));
  host->release(host->context, plugin, sizeof *plugin, alignof(quern_plugin));
}

void give_reason(quern_probe_report* report, quern_status code, const char* why, const char* missing, uint32_t device) {
  if (report->reason_count < report->reason_capacity) {
    quern_reason& r = report->reasons[report->reason_count];
    r.code = code;
    r.text = text(why);
    r.missing = text(missing);
    r.reserved = device;
  }
  ++report->reason_count;
}

#if ZOO_FAULT == ZOO_PROBE_IS_SLOW || ZOO_FAULT == ZOO_PROBE_SPINS
/// By the clock of this process's own processor time.
void compute_for(std::clock_t microseconds) {
  for (const std::clock_t start = std::clock(); std::clock() - start < microseconds * (CLOCKS_PER_SEC / 1000000);) {}
}
#endif

quern_status probe(quern_plugin* plugin, quern_probe_report* report, quern_error* error) {
  plugin->probed = true;
  report->usable = ZOO_DEVICES;
#if ZOO_FAULT == ZOO_PROBE_FAILS
  return fail(error, QUERN_DRIVER_TOO_OLD, "the zoo's driver is 1.2 and this plugin needs 3.4");
#elif ZOO_FAULT == ZOO_PROBE_CRASHES
  ::raise(SIGSEGV);
#elif ZOO_FAULT == ZOO_PROBE_HANGS
  for (;;) ::pause();
#elif ZOO_FAULT == ZOO_PROBE_IS_SLOW
  for (int i = 0; i < 480; ++i) ::usleep(8000), compute_for(1500);  // 4.6 s at least, of which it computes 0.7
#elif ZOO_FAULT == ZOO_PROBE_SPINS
  for (;;) compute_for(1000000);
#elif ZOO_FAULT == ZOO_PROBE_MEETS
  const std::string folder = std::getenv("ZOO_MEETING");  // where each leaves a sign, and waits for that of the other
  std::fclose(std::fopen((folder + "/" ZOO_ID).c_str(), "w"));
  while (::access((folder + "/" ZOO_PARTNER).c_str(), F_OK) != 0) ::usleep(1000);
#elif ZOO_FAULT == ZOO_PROBE_THROWS
  throw std::runtime_error("a probe of the zoo throws");
#elif ZOO_FAULT == ZOO_PROBE_MISSES_LIBRARY
  report->usable = 0;
  give_reason(report, QUERN_DRIVER_MISSING, "needs the driver library libzoo_driver.so.1, which is not installed", "libzoo_driver.so.1", 0);
#elif ZOO_FAULT == ZOO_PROBE_LIMITED
  give_reason(report, QUERN_DEPENDENCY_MISSING, "works without libzoo_fast.so, but slower", "libzoo_fast.so", 0);
#elif ZOO_FAULT == ZOO_HOSTILE_TEXT
  report->usable = ZOO_DEVICES - 1;
  give_reason(report, QUERN_DEPENDENCY_MISSING, "works without a library" ZOO_PLANT, "libzoo" ZOO_PLANT, 0);
  give_reason(report, QUERN_INTERNAL, "device 1 is broken" ZOO_PLANT, "", 2);
  std::puts("the zoo prints" ZOO_PLANT);
  std::fputs("and to stderr" ZOO_PLANT "\n", stderr);
#elif ZOO_FAULT == ZOO_PROBE_PRINTS
  std::puts("the zoo prints to stdout");
  std::fputs("and to stderr\n", stderr);
#elif ZOO_FAULT == ZOO_PROBE_NAMES_FAILED_DEVICE
  report->usable = ZOO_DEVICES - 1;
  give_reason(report, QUERN_INTERNAL, "device 1 computes 2 + 2 = 5", "", 2);
#elif ZOO_FAULT == ZOO_PROBE_HIDES_FAILED_DEVICE || ZOO_FAULT == ZOO_ONE_DEVICE_CANNOT_OPEN
  report->usable = ZOO_DEVICES - 1;
#elif ZOO_FAULT == ZOO_PROBE_LIES
  report->usable = ZOO_DEVICES + 3;
#elif ZOO_FAULT == ZOO_PROBE_FORKS
  if (::fork() == 0)
    for (;;) ::pause();  // holds the pipes of the helper open
#endif
  (void)error;
  return QUERN_OK;
}

quern_status device_count(quern_plugin*, uint32_t* count, quern_error*) {
  *count = ZOO_DEVICES;
  return QUERN_OK;
}

quern_status device_info(quern_plugin*, uint32_t index, quern_device_info* out, quern_error* error) {
  static const char* const names[] = {"Zoo Zero" ZOO_PLANT, "Zoo One" ZOO_PLANT, "Zoo Two", "Zoo Three"};
  static const char* const addresses[] = {"00.0", "01.0", "02.0", "03.0"};
  static char pci[4][32];
  if (index >= ZOO_DEVICES) return fail(error, QUERN_NOT_FOUND, "no such device");
  out->header.struct_size = sizeof *out;
  out->device_class = ZOO_CLASS;
  out->vendor_id = ZOO_VENDOR;
  out->caps = QUERN_CAP_SYNCHRONOUS | QUERN_CAP_HOST_MEMORY;
  out->name = text(names[index]);
  out->architecture = text("zoo-1" ZOO_PLANT);
  if (*ZOO_PCI_BUS) std::snprintf(pci[index], sizeof pci[index], "%s%s", ZOO_PCI_BUS, addresses[index]);
  out->pci_address = text(pci[index]);
  out->memory_alignment = 64;
#if ZOO_FAULT == ZOO_BAD_DEVICE_INFO
  out->memory_alignment = 3;
#elif ZOO_FAULT == ZOO_WIDE_ALIGNMENT
  out->memory_alignment = 65536;
#elif ZOO_FAULT == ZOO_NO_QUEUE
  out->caps = QUERN_CAP_HOST_MEMORY;
#endif
  out->heap_count = 1;
  return QUERN_OK;
}

quern_status device_open(quern_plugin* plugin, uint32_t index, quern_device** out, quern_error* error) {
#if ZOO_FAULT == ZOO_ONE_DEVICE_CANNOT_OPEN
  if (index == 1) return fail(error, QUERN_DEVICE_LOST, "the cage is empty");
#elif ZOO_FAULT == ZOO_OPEN_FAILS_IN_HOST
  return fail(error, QUERN_OUT_OF_MEMORY, "no memory for a context");
#endif
  if (index >= ZOO_DEVICES) return fail(error, QUERN_NOT_FOUND, "no such device");
  *out = new quern_device{plugin};
  return QUERN_OK;
}

quern_status device_close(quern_device* device, quern_error*) {
  delete device;
  return QUERN_OK;
}

quern_status support(quern_device*, const quern_graph*, const quern_support_options*, quern_answer*, quern_error*) {
  return QUERN_UNSUPPORTED;
}
quern_status compile(quern_device*, const quern_graph*, quern_compile_options*, quern_plan**, quern_error*) { return QUERN_UNSUPPORTED; }
quern_status plan_destroy(quern_plan*, quern_error*) { return QUERN_OK; }
quern_status instance_create(quern_plan*, const quern_instance_options*, quern_instance**, quern_instance_info*, quern_error*) {
  return QUERN_UNSUPPORTED;
}
quern_status instance_destroy(quern_instance*, quern_error*) { return QUERN_OK; }
quern_status prepare(quern_device*, quern_queue*, const quern_array*, const quern_sync*, quern_error*) { return QUERN_UNSUPPORTED; }
quern_status submit(quern_device*, quern_queue*, const quern_array*, quern_error*) { return QUERN_UNSUPPORTED; }

quern_status queue_create(quern_device*, uint32_t, quern_queue**, quern_error* error) {
  return fail(error, QUERN_UNSUPPORTED, "the zoo has no queues");
}
quern_status queue_destroy(quern_queue*, quern_error*) { return QUERN_OK; }
quern_status fence_create(quern_device*, uint64_t, uint32_t, quern_fence**, quern_error*) { return QUERN_UNSUPPORTED; }
quern_status fence_destroy(quern_fence*, quern_error*) { return QUERN_OK; }
quern_status fence_wait(quern_device*, const quern_array*, uint32_t, uint64_t, quern_error*) { return QUERN_UNSUPPORTED; }

}  // namespace

#if ZOO_FAULT != ZOO_NO_ENTRY
#ifndef ZOO_ENTRY
#define ZOO_ENTRY quern_plugin_query_v1
#endif
extern "C" __attribute__((visibility("default"))) quern_status ZOO_ENTRY(const quern_query* query, quern_plugin_api* out,
                                                                         quern_error* error) {
#if ZOO_FAULT == ZOO_ENTRY_THROWS
  throw std::runtime_error("the zoo's entry throws");
#elif ZOO_FAULT == ZOO_ENTRY_REFUSES
  return fail(error, QUERN_VERSION, "the zoo wants a younger host");
#elif ZOO_FAULT == ZOO_ENTRY_CRASHES
  ::raise(SIGSEGV);
#endif
  quern_plugin_api api{};
  api.header = {sizeof api, QUERN_TYPE_PLUGIN_API, nullptr};
  api.abi_minor = query->abi_minor < ZOO_MINOR ? query->abi_minor : ZOO_MINOR;
  api.opset_version = QUERN_OPSET_VERSION;
  api.format_table_version = QUERN_FORMAT_TABLE_VERSION;
  api.id = text(ZOO_ID);
  api.version = text(ZOO_VERSION);
  api.create = create;
  api.destroy = destroy;
  api.probe = probe;
  api.device_count = device_count;
  api.device_info = device_info;
  api.device_open = device_open;
  api.device_close = device_close;
  api.support = support;
  api.compile = compile;
  api.plan_destroy = plan_destroy;
  api.instance_create = instance_create;
  api.instance_destroy = instance_destroy;
  api.prepare = prepare;
  api.submit = submit;
  api.queue_create = queue_create;
  api.queue_destroy = queue_destroy;
  api.fence_create = fence_create;
  api.fence_destroy = fence_destroy;
  api.fence_wait = fence_wait;
#if ZOO_FAULT == ZOO_NULL_FUNCTION
  api.compile = nullptr;
#elif ZOO_FAULT == ZOO_OTHER_ID
  api.id = text("somebody_else");
#elif ZOO_FAULT == ZOO_SMALL_TABLE
  api.header.struct_size = 64;
#elif ZOO_FAULT == ZOO_HIGH_MINOR
  api.abi_minor = query->abi_minor + 1;
#elif ZOO_FAULT == ZOO_FOREIGN_OP_SET
  api.opset_version = 99;
#elif ZOO_FAULT == ZOO_VERSION_WITHOUT_DATA
  api.version = {nullptr, 5};
#elif ZOO_FAULT == ZOO_NO_FORMAT_TABLE
  api.format_table_version = 0;
#elif ZOO_FAULT == ZOO_NEWER_OP_SET  // no fault where the minor is newer too
  api.opset_version = QUERN_OPSET_VERSION + 1;
#endif
  const uint32_t room = out->header.struct_size;
  std::memcpy(out, &api, room < sizeof api ? room : sizeof api);
  (void)error;
  return QUERN_OK;
}
#endif
