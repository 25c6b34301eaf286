// S2: the query, and what must hold of the table before anything else is called.
#include "negotiate.hpp"

#include "quern/graph/error.hpp"
#include "quern/quern_min_sizes.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>

namespace quern::loader {
namespace {

constexpr std::uint64_t max_string = 4096;

/// The functions that CONTRACT.md marks as required; their absence is named.
const char* first_missing(const quern_plugin_api& api) {
#define QUERN_CHECK(function) \
  if (!api.function) return #function;
  QUERN_CHECK(create)
  QUERN_CHECK(destroy)
  QUERN_CHECK(device_count)
  QUERN_CHECK(device_info)
  QUERN_CHECK(device_open)
  QUERN_CHECK(device_close)
  QUERN_CHECK(support)
  QUERN_CHECK(compile)
  QUERN_CHECK(plan_destroy)
  QUERN_CHECK(instance_create)
  QUERN_CHECK(instance_destroy)
  QUERN_CHECK(prepare)
  QUERN_CHECK(submit)
#undef QUERN_CHECK
  return nullptr;
}

/// The plugin's own minor; at least the host's where it does not answer.
std::uint32_t own_minor(quern_plugin_query_fn entry, const HostFacts& host) {
  quern_query query{};
  query.header = {sizeof query, QUERN_TYPE_QUERY, nullptr};
  query.abi_minor = UINT32_MAX;
  query.abi_minor_min = host.abi_minor_min;
  query.header_hash = host.header_hash;
  quern_plugin_api api{};
  api.header = {sizeof api, QUERN_TYPE_PLUGIN_API, nullptr};
  return entry(&query, &api, nullptr) == QUERN_OK ? api.abi_minor : host.abi_minor;
}

/// What is wrong with a number of the table: 0, or later than the headers of the plugin's minor have. Empty: nothing.
std::string wrong_version(const char* name, std::uint32_t found, std::uint32_t known, const std::function<std::uint32_t()>& minor,
                          const HostFacts& host) {
  if (found >= 1 && (found <= known || minor() > host.abi_minor)) return {};
  return concat("its ", name, " is ", found, "; expected 1 to ", known, ", what ABI minor ", host.abi_minor, " has");
}

std::string without_text(const char* name, const quern_string& text, bool required) {
  if (text.data == nullptr && text.size != 0) return concat("its ", name, " has ", text.size, " bytes at a null pointer");
  return required && text.size == 0 ? concat("its ", name, " is empty") : std::string();
}

const char* const ask_author = "install another version of the plugin, or tell its author";

Verdict check_table(const std::string& path, const quern_plugin_api& api, const std::string& expected_id, const HostFacts& host,
                    const std::function<std::uint32_t()>& minor) {
  if (api.header.struct_type != QUERN_TYPE_PLUGIN_API || api.header.struct_size < QUERN_MIN_SIZE_quern_plugin_api ||
      api.header.struct_size > sizeof api)
    return {code::table_size,
            concat(path, ": its function table has type ", api.header.struct_type, " and ", api.header.struct_size,
                   " bytes; expected type ", int{QUERN_TYPE_PLUGIN_API}, " and ", QUERN_MIN_SIZE_quern_plugin_api, " to ", sizeof api),
            ask_author,
            {}};
  if (api.abi_minor > host.abi_minor || api.abi_minor < host.abi_minor_min)
    return {code::minor_range,
            concat(path, ": negotiated ABI minor ", api.abi_minor, ", but was offered ", host.abi_minor_min, " to ", host.abi_minor),
            ask_author,
            {}};
  if (const char* name = first_missing(api))
    return {code::table_null, concat(path, ": the required function '", name, "' is null"), ask_author, {}};
  for (const std::string& wrong :
       {without_text("id", api.id, false), without_text("version", api.version, true), without_text("build", api.build, false),
        wrong_version("op set", api.opset_version, QUERN_OPSET_VERSION, minor, host),
        wrong_version("format table", api.format_table_version, QUERN_FORMAT_TABLE_VERSION, minor, host)})
    if (!wrong.empty()) return {code::table_versions, concat(path, ": its function table is not sound: ", wrong), ask_author, {}};
  const std::string id = copy_string(api.id);
  if (id.empty() || (!expected_id.empty() && id != expected_id))
    return {
        code::id_differs, concat(path, ": its function table has the name '", id, "', and its note '", expected_id, "'"), ask_author, {}};
  return {};
}

}  // namespace

ErrorBuffer::ErrorBuffer() {
  error_.header = {sizeof error_, QUERN_TYPE_ERROR, nullptr};
  error_.heap = error_.node = error_.slot = QUERN_NONE;
  error_.text = text_;
  error_.text_capacity = sizeof text_ - 1;  // the last byte stays zero
}

std::string ErrorBuffer::text() const {
  return std::string(text_, std::min<std::uint64_t>(error_.text_size, strnlen(text_, sizeof text_)));
}

std::string ErrorBuffer::words(quern_status status) const {
  std::string said = text();
  if (said.empty()) said = "it gave no reason";
  return concat(status_words(status), " (status ", status, "): ", said);
}

std::string status_words(quern_status status) {
  switch (status) {
    case QUERN_OK: return "ok";
    case QUERN_INVALID_ARGUMENT: return "invalid argument";
    case QUERN_UNSUPPORTED: return "unsupported";
    case QUERN_NOT_FOUND: return "not found";
    case QUERN_OUT_OF_MEMORY: return "out of device memory";
    case QUERN_HOST_OUT_OF_MEMORY: return "out of memory";
    case QUERN_DEVICE_LOST: return "device lost";
    case QUERN_TIMEOUT: return "timeout";
    case QUERN_BUSY: return "busy";
    case QUERN_CANCELLED: return "cancelled";
    case QUERN_VERSION: return "versions do not fit";
    case QUERN_DRIVER_MISSING: return "driver missing";
    case QUERN_DRIVER_TOO_OLD: return "driver too old";
    case QUERN_DEPENDENCY_MISSING: return "a library is missing";
    case QUERN_ARCH_NOT_BUILT: return "not built for this device";
    case QUERN_PERMISSION: return "permission denied";
    case QUERN_FORKED: return "called after fork";
    case QUERN_IO: return "input or output failed";
    case QUERN_INTERNAL: return "internal error";
    default: return "failed";
  }
}

std::string copy_string(quern_string text) {
  if (!text.data) return {};
  return std::string(text.data, std::min(text.size, max_string));
}

Verdict negotiate(const std::string& path, quern_plugin_query_fn entry, const std::string& expected_id, const HostFacts& host,
                  quern_plugin_api& api) {
  quern_query query{};
  query.header = {sizeof query, QUERN_TYPE_QUERY, nullptr};
  query.abi_minor = host.abi_minor;
  query.abi_minor_min = host.abi_minor_min;
  query.header_hash = host.header_hash;
  api = {};
  api.header = {sizeof api, QUERN_TYPE_PLUGIN_API, nullptr};
  ErrorBuffer error;
  quern_status status = QUERN_INTERNAL;
  try {
    status = entry(&query, &api, error.get());
  } catch (const std::exception& thrown) {
    return {code::entry_threw, concat(path, ": its entry let a C++ exception out"), ask_author, thrown.what()};
  } catch (...) { return {code::entry_threw, concat(path, ": its entry let an exception out"), ask_author, {}}; }
  if (status != QUERN_OK)
    return {code::entry_refused, concat(path, ": refused this runtime: ", error.words(status)),
            status == QUERN_VERSION ? "install versions of plugin and runtime that fit" : ask_author, error.text()};
  try {
    return check_table(path, api, expected_id, host, [&] { return own_minor(entry, host); });
  } catch (...) { return {code::entry_threw, concat(path, ": its entry let an exception out"), ask_author, {}}; }
}

}  // namespace quern::loader
