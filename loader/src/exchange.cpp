// The JSON that travels between the loader, its helper process and its cache. Numbers, ranges and list sizes
// are checked on the way in.
#include "exchange.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace quern::loader {
namespace {

constexpr std::size_t max_list = 1024;

/// A field of an object, of the type that `T` wants; `code` and `what` make the error.
template <typename T>
T field(const Json& object, const char* name, quern_status code, const char* what) {
  const auto wrong = [&](const char* how) { return Error(code, concat(what, ": field '", name, "' ", how)); };
  if (!object.is_object()) throw Error(code, concat(what, ": not a JSON object"));
  const Json* found = object.find(name);
  if (found == nullptr) throw wrong("is missing");
  if constexpr (std::is_same_v<T, std::string>) {
    if (found->text() == nullptr) throw wrong("is not a string");
    return *found->text();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (found->boolean() == nullptr) throw wrong("is not true or false");
    return *found->boolean();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!found->number()) throw wrong("is not a number");
    return *found->number();
  } else {
    if (found->count() == nullptr || *found->count() > std::numeric_limits<T>::max()) throw wrong("is not a whole number of its range");
    return static_cast<T>(*found->count());
  }
}

const Json::List& list(const Json& object, const char* name, quern_status code, const char* what) {
  const Json* found = object.find(name);
  if (found == nullptr || found->list() == nullptr || found->list()->size() > max_list)
    throw Error(code, concat(what, ": field '", name, "' is not a list of at most ", max_list));
  return *found->list();
}

void write_json(JsonWriter& json, const Verdict& v) {
  json.begin_object();
  json.member("code", v.code);
  json.member("cause", v.cause);
  json.member("remedy", v.remedy);
  json.member("raw_error", v.raw_error);
  json.end_object();
}

constexpr const char* result_words = "the result of a probe";

template <typename T>
T answer(const Json& object, const char* name) {
  return field<T>(object, name, QUERN_IO, result_words);
}

Verdict verdict_from(const Json& value) {
  return {answer<std::string>(value, "code"), answer<std::string>(value, "cause"), answer<std::string>(value, "remedy"),
          answer<std::string>(value, "raw_error")};
}

DeviceInfo info_from(const Json& value) {
  DeviceInfo info;
  info.device_class = answer<std::uint32_t>(value, "class");
  if (info.device_class < QUERN_DEVICE_DISCRETE || info.device_class > QUERN_DEVICE_OTHER)
    throw Error(QUERN_IO, concat(result_words, ": field 'class' is ", info.device_class));
  info.vendor_id = answer<std::uint32_t>(value, "vendor_id");
  info.caps = answer<std::uint64_t>(value, "caps");
  info.name = answer<std::string>(value, "name");
  info.architecture = answer<std::string>(value, "architecture");
  info.driver_have = answer<std::string>(value, "driver_have");
  info.driver_need = answer<std::string>(value, "driver_need");
  info.pci_address = answer<std::string>(value, "pci_address");
  const Json::List& uuid = list(value, "uuid", QUERN_IO, result_words);
  if (uuid.size() != info.uuid.size()) throw Error(QUERN_IO, concat(result_words, ": field 'uuid' has ", uuid.size(), " bytes"));
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (uuid[i].count() == nullptr || *uuid[i].count() > 255)
      throw Error(QUERN_IO, concat(result_words, ": field 'uuid' is not a list of bytes"));
    info.uuid[i] = static_cast<std::uint8_t>(*uuid[i].count());
  }
  info.memory_alignment = answer<std::uint64_t>(value, "memory_alignment");
  info.max_allocation = answer<std::uint64_t>(value, "max_allocation");
  info.heap_count = answer<std::uint32_t>(value, "heap_count");
  info.numa_node = answer<std::uint32_t>(value, "numa_node");
  return info;
}

Stage stage_from(std::uint32_t number) {
  if (number > static_cast<std::uint32_t>(Stage::system)) throw Error(QUERN_IO, concat(result_words, ": stage ", number, " is unknown"));
  return static_cast<Stage>(number);
}

}  // namespace

int stage_number(Stage stage) { return static_cast<int>(stage); }

std::string write_request(const HelperRequest& request) {
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.member("path", request.path);
  json.member("allow_dev_plugins", request.allow_dev_plugins);
  json.member("measure", request.measure);
  json.key("options");
  json.begin_object();
  for (const auto& [key, value] : request.options.options) json.member(key, value);
  json.end_object();
  json.member("threads", request.options.threads);
  json.member("affinity", request.options.affinity);
  json.member("cache_directory", request.options.cache_directory);
  json.end_object();
  return json.take();
}

HelperRequest read_request(const std::string& text) {
  constexpr const char* what = "the request";
  const Json value = Json::parse(text).value_or(Json());
  HelperRequest request;
  request.path = field<std::string>(value, "path", QUERN_INVALID_ARGUMENT, what);
  request.allow_dev_plugins = field<bool>(value, "allow_dev_plugins", QUERN_INVALID_ARGUMENT, what);
  request.measure = field<bool>(value, "measure", QUERN_INVALID_ARGUMENT, what);
  request.options.threads = field<std::uint32_t>(value, "threads", QUERN_INVALID_ARGUMENT, what);
  request.options.cache_directory = field<std::string>(value, "cache_directory", QUERN_INVALID_ARGUMENT, what);
  const Json* options = value.find("options");
  if (options == nullptr || !options->is_object()) throw Error(QUERN_INVALID_ARGUMENT, concat(what, ": field 'options' is not an object"));
  for (const Json::Member& option : *options->members()) {
    if (option.value.text() == nullptr) throw Error(QUERN_INVALID_ARGUMENT, concat(what, ": option '", option.name, "' is not a string"));
    request.options.options[option.name] = *option.value.text();
  }
  for (const Json& processor : list(value, "affinity", QUERN_INVALID_ARGUMENT, what)) {
    if (processor.count() == nullptr || *processor.count() > std::numeric_limits<std::uint32_t>::max())
      throw Error(QUERN_INVALID_ARGUMENT, concat(what, ": field 'affinity' is not a list of processors"));
    request.options.affinity.push_back(static_cast<std::uint32_t>(*processor.count()));
  }
  return request;
}

namespace {

const Json& member(const Json& object, const char* name) {
  static const Json none;
  const Json* found = object.find(name);
  return found == nullptr ? none : *found;
}

void write_json(JsonWriter& json, const DeviceInfo& info) {
  json.begin_object();
  json.member("class", info.device_class);
  json.member("vendor_id", info.vendor_id);
  json.member("caps", info.caps);
  json.member("name", info.name);
  json.member("architecture", info.architecture);
  json.member("driver_have", info.driver_have);
  json.member("driver_need", info.driver_need);
  json.member("pci_address", info.pci_address);
  json.member("uuid", info.uuid);
  json.member("memory_alignment", info.memory_alignment);
  json.member("max_allocation", info.max_allocation);
  json.member("heap_count", info.heap_count);
  json.member("numa_node", info.numa_node);
  json.end_object();
}

}  // namespace

void write_json(JsonWriter& json, const Examination& examination) {
  json.begin_object();
  json.member("stage", stage_number(examination.stage));
  json.key("verdict");
  write_json(json, examination.verdict);
  json.member("id", examination.id);
  json.member("version", examination.version);
  json.member("build", examination.build);
  json.member("abi_minor", examination.abi_minor);
  json.key("reasons");
  json.begin_array();
  for (const Reason& r : examination.reasons) {
    json.begin_object();
    json.member("code", static_cast<std::uint32_t>(r.code));
    json.member("text", r.text);
    json.member("missing", r.missing);
    json.member("remedy", r.remedy);
    json.end_object();
  }
  json.end_array();
  json.key("devices");
  json.begin_array();
  for (const ProbedDevice& d : examination.devices) {
    json.begin_object();
    json.key("info");
    write_json(json, d.info);
    json.key("verdict");
    write_json(json, d.verdict);
    json.member("bandwidth", d.bandwidth);
    json.end_object();
  }
  json.end_array();
  json.member("printed", examination.printed);
  json.end_object();
}

Examination examination_from(const Json& value) {
  Examination made;
  made.stage = stage_from(answer<std::uint32_t>(value, "stage"));
  made.verdict = verdict_from(member(value, "verdict"));
  made.id = answer<std::string>(value, "id");
  made.version = answer<std::string>(value, "version");
  made.build = answer<std::string>(value, "build");
  made.abi_minor = answer<std::uint32_t>(value, "abi_minor");
  made.printed = answer<std::string>(value, "printed");
  for (const Json& r : list(value, "reasons", QUERN_IO, result_words))
    made.reasons.push_back({static_cast<quern_status>(answer<std::uint32_t>(r, "code")), answer<std::string>(r, "text"),
                            answer<std::string>(r, "missing"), answer<std::string>(r, "remedy")});
  for (const Json& d : list(value, "devices", QUERN_IO, result_words)) {
    if (!d.is_object()) throw Error(QUERN_IO, concat(result_words, ": a device is not an object"));
    made.devices.push_back({info_from(member(d, "info")), verdict_from(member(d, "verdict")), answer<double>(d, "bandwidth")});
  }
  return made;
}

}  // namespace quern::loader
