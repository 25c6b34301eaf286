// Loading [C1 C5 C6 C24 C25]: the one symbol, the note, what the library needs, and the table of functions.
#include "abi/library.hpp"
#include "abi/scripts.hpp"
#include "abi/temporary.hpp"
#include "device_run/breadcrumb.hpp"
#include "device_run/allocation_watch.hpp"
#include "device_run/call_watch.hpp"

#include "quern/quern_min_sizes.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace quern::conformance::abi {
namespace {

void one_symbol(ScriptContext& t) {
  const Library library = inspect_library(t);
  std::string others;
  for (const std::string& name : library.exported)
    if (name != QUERN_PLUGIN_QUERY_NAME) others += " " + name;
  t.check(std::ranges::count(library.exported, QUERN_PLUGIN_QUERY_NAME) == 1, "the library exports quern_plugin_query_v1 [C1]");
  t.check(others.empty(), "the library exports nothing else [C1], found" + others);
  t.check(!library.has_unique, "no exported symbol is GNU-unique [C1]");
}

struct RoomyTable {
  quern_plugin_api table;
  std::uint64_t tail[8];
};

void query_is_pure(ScriptContext& t) {
  const quern_plugin_query_fn query = query_of(t);
  quern_query asked = made<quern_query>(QUERN_TYPE_QUERY);
  asked.abi_minor = QUERN_ABI_MINOR;
  RoomyTable first{}, again{};
  for (RoomyTable* out : {&first, &again}) {
    std::memset(static_cast<void*>(out), 0x5a, sizeof *out);
    out->table.header = {sizeof *out, QUERN_TYPE_PLUGIN_API, nullptr};
    const AllocationWatch watch;
    const quern_status status = query(&asked, &out->table, nullptr);
    const std::uint64_t taken = watch.count();
    t.require(status == QUERN_OK, "the query answers OK without a quern_error [C1]");
    t.check(taken == 0, "the query allocates nothing [C1]");
    t.check(out->tail[0] == 0x5a5a5a5a5a5a5a5aull, "the query writes nothing behind the table that it knows [C2]");
    t.check(out->table.header.struct_size <= sizeof *out && out->table.header.struct_size >= QUERN_MIN_SIZE_quern_plugin_api,
            "the query sets struct_size to what it filled [C2]");
  }
  t.check(std::memcmp(&first.table, &again.table, sizeof first.table) == 0, "the query gives the same table twice [C1]");
  t.check(first.table.submit == untraced(t.api()).submit, "the query gives the table that the loader got [C1]");
}

/// The first call of all, of a copy of the library that nobody called before: what is made once for all would be made in it.
void first_query_is_pure(ScriptContext& t) {
  const std::string path = t.device().plugin()->path();
  if (path.starts_with("registered:")) t.waive("no library", "the plugin is registered by pointer");
  if (!CallWatch::available()) t.waive("seccomp", "system calls cannot be watched in this build or on this machine");
  const TemporaryDirectory directory;
  const std::string name = path.substr(path.rfind('/') + 1);
  directory.write(name, read_file(path));
  for (const bool oldest : {false, true}) {
    const std::string found = CallWatch::of(
        [&]() -> std::function<void()> {
          void* const library = ::dlopen((directory.path() + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
          if (library == nullptr) throw std::runtime_error(std::string("a copy of the library cannot be loaded: ") + ::dlerror());
          const auto query = reinterpret_cast<quern_plugin_query_fn>(::dlsym(library, QUERN_PLUGIN_QUERY_NAME));
          if (query == nullptr) throw std::runtime_error("a copy of the library has no " QUERN_PLUGIN_QUERY_NAME);
          return [query, oldest] {
            quern_query asked = made<quern_query>(QUERN_TYPE_QUERY);
            asked.abi_minor = oldest ? 0 : QUERN_ABI_MINOR;
            asked.header_hash = QUERN_HEADER_HASH;
            quern_plugin_api table = made<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
            const AllocationWatch watch;
            query(&asked, &table, nullptr);
            if (watch.count() != 0) ::syscall(SYS_brk, 0);  // what a heap does when it is short of memory
          };
        },
        true);
    t.check(found.empty(), "the first query of a process takes no memory, opens no file and reads no environment [C1], found " + found);
  }
}

void query_refuses(ScriptContext& t) {
  const quern_plugin_query_fn query = query_of(t);
  quern_query asked = made<quern_query>(QUERN_TYPE_QUERY);
  quern_plugin_api table = made<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  const auto refused = [&](const quern_query* q, quern_plugin_api* out, const char* claim) {
    AbiError error;
    check_refused(t, query(q, out, error.get()), error, {QUERN_INVALID_ARGUMENT}, claim);
  };
  refused(nullptr, &table, "a null query is refused [C1]");
  refused(&asked, nullptr, "a null table is refused [C1]");
  for (const std::uint32_t size : {0u, 8u, QUERN_MIN_SIZE_quern_query - 1}) {
    asked.header.struct_size = size;
    refused(&asked, &table, "a query that is too short is refused [C2]");
  }
  asked.header = {sizeof asked, QUERN_TYPE_HOST, nullptr};
  refused(&asked, &table, "a query of another type is refused [C2]");
  asked.header.struct_type = QUERN_TYPE_QUERY;
  for (const std::uint32_t size : {0u, 8u, QUERN_MIN_SIZE_quern_plugin_api - 1}) {
    table.header.struct_size = size;
    refused(&asked, &table, "a table that is shorter than in its first release is refused [C2]");
  }
  table.header = {sizeof table, QUERN_TYPE_HOST, nullptr};
  refused(&asked, &table, "a table of another type is refused [C2]");
}

void minors_are_negotiated(ScriptContext& t) {
  const quern_plugin_query_fn query = query_of(t);
  quern_query asked = made<quern_query>(QUERN_TYPE_QUERY);
  quern_plugin_api table = made<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  asked.abi_minor = 1000;
  t.require(query(&asked, &table, nullptr) == QUERN_OK, "a newer host is served [C25]");
  const std::uint32_t own = table.abi_minor;
  t.check(own < 1000, "the plugin's own minor is the smaller one against a newer host [C25]");
  t.check(table.opset_version >= 1 && table.format_table_version >= 1,
          "the versions of op set and format table are numbers from 1 on [C25]");
  t.check(own > QUERN_ABI_MINOR || (table.opset_version <= QUERN_OPSET_VERSION && table.format_table_version <= QUERN_FORMAT_TABLE_VERSION),
          "and no later than those of the headers of its minor [C25], found op set " + std::to_string(table.opset_version) +
              " and format table " + std::to_string(table.format_table_version));
  for (const auto& [text, name] : {std::pair{table.id, "id"}, {table.version, "version"}})
    t.check(text.data != nullptr && text.size != 0, std::string("the table's ") + name + " is a text [C25]");
  t.check(table.build.size == 0 || table.build.data != nullptr, "the table's build is a text, or empty [C25]");
  asked.abi_minor = 0;
  table = made<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  t.require(query(&asked, &table, nullptr) == QUERN_OK, "the oldest host is served [C25]");
  t.check(table.abi_minor == 0, "against a host of minor 0 the minor is 0 [C25]");
}

void newer_minor_is_refused(ScriptContext& t) {
  quern_query asked = made<quern_query>(QUERN_TYPE_QUERY);
  quern_plugin_api table = made<quern_plugin_api>(QUERN_TYPE_PLUGIN_API);
  asked.abi_minor = asked.abi_minor_min = 1000;
  AbiError error;
  check_refused(t, query_of(t)(&asked, &table, error.get()), error, {QUERN_VERSION}, "a host that needs minor 1000 is refused [C25]");
}

void note_fits(ScriptContext& t) {
  const Library library = inspect_library(t);
  t.require(library.has_note, "the library carries the note .note.quern [C5]");
  const quern_note& note = library.note;
  const std::string id(t.api().id.data, t.api().id.size);
  t.check(note.magic == QUERN_NOTE_MAGIC, "the note has the magic [C5]");
  t.check(note.note_size >= sizeof(quern_note), "the note has its size [C5]");
  t.check((note.epochs >> QUERN_ABI_EPOCH & 1u) != 0, "the note names the epoch of the entry [C5]");
  t.check(std::string(note.id, ::strnlen(note.id, sizeof note.id)) == id, "the id of the note is that of the table [C5]");
  const std::string& path = t.device().plugin()->path();
  t.check(path.ends_with("/libbackend_" + id + ".so"), "the file is named after the id [C5]");
  t.check(note.min_host_minor <= QUERN_ABI_MINOR, "the note asks for no newer host than this [C5]");
}

/// The entry whose path starts with this; null if there is none.
const loader::ReportEntry* entry_of(const loader::Report& report, const std::string& path) {
  const auto found = std::ranges::find_if(report.entries, [&](const loader::ReportEntry& e) {
    return e.path.starts_with(path + "/") || e.path.starts_with(path + ":");
  });
  return found == report.entries.end() ? nullptr : &*found;
}

/// A copy of the plugin's file with some bytes changed, alone in a directory, and what the loader says of it.
struct Spoiled {
  Spoiled(ScriptContext& t, const std::string& find, const std::string& replace) {
    const std::string id(t.api().id.data, t.api().id.size);
    std::string bytes = read_file(t.device().plugin()->path());
    std::size_t at = bytes.find(find);
    t.require(at != std::string::npos, "the plugin's file holds the bytes that are to be spoiled");
    for (; at != std::string::npos; at = bytes.find(find, at + replace.size())) bytes.replace(at, replace.size(), replace);
    directory.write("libbackend_" + id + ".so", bytes);
    loader::Settings settings;
    settings.backend_path.set({directory.path()}, "the suite");
    const loader::Loader found(settings);
    candidates = found.candidates().size();
    report = found.report();
  }
  const loader::ReportEntry* entry() const { return entry_of(report, directory.path()); }

  TemporaryDirectory directory;
  std::size_t candidates = 0;
  loader::Report report;
};

void bad_note_is_refused(ScriptContext& t) {
  if (t.device().plugin()->path().starts_with("registered:")) t.waive("no library", "the plugin is registered by pointer");
  const std::uint32_t magic = QUERN_NOTE_MAGIC;
  const Spoiled spoiled(t, std::string(reinterpret_cast<const char*>(&magic), sizeof magic), "XXXX");
  t.check(spoiled.candidates == 0, "a plugin whose note does not pass is no candidate [C5]");
  t.require(spoiled.entry() != nullptr, "the loader reports the file [C5]");
  t.check(spoiled.entry()->stage == loader::Stage::inspect, "it is refused before any of its code runs [C5]");
}

void needs_no_driver(ScriptContext& t) {
  const Library library = inspect_library(t);
  for (const std::string& name : library.needed) {
    const bool system = name.starts_with("libc.so") || name.starts_with("libm.so") || name.starts_with("libstdc++.so") ||
                        name.starts_with("libgcc_s.so") || name.starts_with("ld-linux") || name.starts_with("libpthread.so") ||
                        name.starts_with("libdl.so") || name.starts_with("librt.so") || name.starts_with("libasan.so") ||
                        name.starts_with("libubsan.so") || name.starts_with("libtsan.so");
    t.check(system, "the library is linked to no driver and no vendor's library [C6], found " + name);
  }
  t.check(true, "a library that needs none");
}

void missing_library_is_named(ScriptContext& t) {
  const Library library = inspect_library(t);
  const auto libc =
      std::ranges::find_if(library.needed, [](const std::string& n) { return n.starts_with("libc.so") || n.starts_with("libstdc++.so"); });
  if (libc == library.needed.end()) t.waive("no DT_NEEDED", "the library needs no other, so none can be missing");
  std::string absent = *libc;
  absent.replace(0, 6, "libqqq");
  const Spoiled spoiled(t, *libc + '\0', absent + '\0');
  t.check(spoiled.candidates == 0, "a plugin that lacks a library is no candidate [C6]");
  t.require(spoiled.entry() != nullptr, "the loader reports the file [C6]");
  const loader::ReportEntry& entry = *spoiled.entry();
  t.check((entry.cause + entry.remedy).find(absent) != std::string::npos, "the report names the missing library [C6]: " + entry.cause);
}

void required_functions(ScriptContext& t) {
  const quern_plugin_api& api = t.api();
  const DeviceRef device = t.device();
  t.check(api.create && api.destroy && api.device_count && api.device_info && api.device_open && api.device_close,
          "create to device_close are there [C24]");
  t.check(api.support && api.compile && api.plan_destroy && api.instance_create && api.instance_destroy && api.prepare && api.submit,
          "support to submit are there [C24]");
  if (device.host_memory())
    t.check(!api.buffer_create && !api.buffer_destroy && !api.upload && !api.download,
            "under HOST_MEMORY the memory functions are null [C24]");
  else
    t.check(api.buffer_create && api.buffer_destroy && api.upload && api.download,
            "without HOST_MEMORY the memory functions are there [C24]");
  const bool queues = api.queue_create && api.queue_destroy && api.fence_create && api.fence_destroy && api.fence_query && api.fence_wait;
  if (device.synchronous())
    t.check(!api.queue_create && !api.fence_create, "under SYNCHRONOUS the queue and fence functions are null [C24]");
  else t.check(queues, "without SYNCHRONOUS the queue and fence functions are there [C24]");
  t.check((api.weights_plan == nullptr) == (api.weights_pack == nullptr), "weights_plan and weights_pack come together [C15]");
  t.check((device.caps() & QUERN_CAP_SNAPSHOTS) == 0 || (api.snapshot && api.restore), "SNAPSHOTS comes with its functions [C30]");
  t.check((device.caps() & QUERN_CAP_INDIRECT_SPANS) == 0 || api.buffer_address || device.host_memory(),
          "INDIRECT_SPANS comes with buffer_address [C30]");
  t.check((device.caps() & QUERN_CAP_COLLECTIVES) == 0 || (api.communicator_create && api.communicator_destroy),
          "COLLECTIVES comes with its functions [C30]");
}

/// The plugin's own query with one function taken out: registered by pointer, so it needs a place that has no argument.
quern_plugin_query_fn wrapped_query = nullptr;
quern_status without_submit(const quern_query* query, quern_plugin_api* out, quern_error* error) {
  const quern_status status = wrapped_query(query, out, error);
  if (status == QUERN_OK) out->submit = nullptr;
  return status;
}

void null_function_is_refused(ScriptContext& t) {
  wrapped_query = query_of(t);
  loader::Settings settings;
  settings.registered = {without_submit};
  TemporaryDirectory empty;
  settings.backend_path.set({empty.path()}, "the suite");
  const loader::Loader found(settings);
  t.check(found.candidates().empty(), "a table without submit makes no candidate [C24]");
  const loader::Report report = found.report();
  const loader::ReportEntry* entry = entry_of(report, "registered");
  t.require(entry != nullptr, "the loader reports the plugin [C24]");
  t.check(entry->stage == loader::Stage::negotiate && entry->cause.find("'submit'") != std::string::npos,
          "it is refused at negotiation, naming the function [C24]: " + entry->cause);
}

}  // namespace

void loading_scripts(CaseSink& sink) {
  add(sink, "loading.one_symbol", one_symbol);
  add(sink, "loading.query_is_pure", query_is_pure);
  add(sink, "loading.first_query_is_pure", first_query_is_pure);
  add(sink, "loading.query_refuses", query_refuses);
  add(sink, "loading.minors_are_negotiated", minors_are_negotiated);
  add(sink, "loading.newer_minor_is_refused", newer_minor_is_refused);
  add(sink, "loading.note_fits", note_fits);
  add(sink, "loading.bad_note_is_refused", bad_note_is_refused);
  add(sink, "loading.needs_no_driver", needs_no_driver);
  add(sink, "loading.missing_library_is_named", missing_library_is_named);
  add(sink, "loading.required_functions", required_functions);
  add(sink, "loading.null_function_is_refused", null_function_is_refused);
}

}  // namespace quern::conformance::abi
