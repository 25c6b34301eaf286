// The JSON that travels between the loader, its helper process and its cache. Numbers, ranges and list sizes
// are checked on the way in.
#include "exchange.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::loader {
namespace {

using nlohmann::json;

constexpr std::size_t max_list = 1024;

/// A field of an object, of the type that `T` wants; `code` and `what` make the error.
template <typename T>
T field(const json& object, const char* name, quern_status code, const char* what) {
  const auto wrong = [&](const char* how) { return Error(code, concat(what, ": field '", name, "' ", how)); };
  if (!object.is_object()) throw Error(code, concat(what, ": not a JSON object"));
  const auto found = object.find(name);
  if (found == object.end()) throw wrong("is missing");
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) throw wrong("is not a string");
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) throw wrong("is not true or false");
  } else if constexpr (std::is_same_v<T, double>) {
    if (!found->is_number()) throw wrong("is not a number");
  } else {
    if (!found->is_number_unsigned() || found->template get<std::uint64_t>() > std::numeric_limits<T>::max())
      throw wrong("is not a whole number of its range");
  }
  return found->template get<T>();
}

const json& list(const json& object, const char* name, quern_status code, const char* what) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end() || !found->is_array() || found->size() > max_list)
    throw Error(code, concat(what, ": field '", name, "' is not a list of at most ", max_list));
  return *found;
}

json to_value(const Verdict& v) {
  return {{"code", v.code}, {"cause", v.cause}, {"remedy", v.remedy}, {"raw_error", v.raw_error}};
}

constexpr const char* result_words = "the result of a probe";

template <typename T>
T answer(const json& object, const char* name) {
  return field<T>(object, name, QUERN_IO, result_words);
}

Verdict verdict_from(const json& value) {
  return {answer<std::string>(value, "code"), answer<std::string>(value, "cause"),
          answer<std::string>(value, "remedy"), answer<std::string>(value, "raw_error")};
}

DeviceInfo info_from(const json& value) {
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
  const json& uuid = list(value, "uuid", QUERN_IO, result_words);
  if (uuid.size() != info.uuid.size())
    throw Error(QUERN_IO, concat(result_words, ": field 'uuid' has ", uuid.size(), " bytes"));
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (!uuid[i].is_number_unsigned() || uuid[i].get<std::uint64_t>() > 255)
      throw Error(QUERN_IO, concat(result_words, ": field 'uuid' is not a list of bytes"));
    info.uuid[i] = static_cast<std::uint8_t>(uuid[i].get<std::uint64_t>());
  }
  info.memory_alignment = answer<std::uint64_t>(value, "memory_alignment");
  info.max_allocation = answer<std::uint64_t>(value, "max_allocation");
  info.heap_count = answer<std::uint32_t>(value, "heap_count");
  info.numa_node = answer<std::uint32_t>(value, "numa_node");
  return info;
}

Stage stage_from(std::uint32_t number) {
  if (number > static_cast<std::uint32_t>(Stage::system))
    throw Error(QUERN_IO, concat(result_words, ": stage ", number, " is unknown"));
  return static_cast<Stage>(number);
}

}  // namespace

int stage_number(Stage stage) { return static_cast<int>(stage); }

std::string dump(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string write_request(const HelperRequest& request) {
  return dump({{"path", request.path},
               {"allow_dev_plugins", request.allow_dev_plugins},
               {"measure", request.measure},
               {"options", request.options.options},
               {"threads", request.options.threads},
               {"affinity", request.options.affinity},
               {"cache_directory", request.options.cache_directory}});
}

HelperRequest read_request(const std::string& text) {
  constexpr const char* what = "the request";
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  HelperRequest request;
  request.path = field<std::string>(value, "path", QUERN_INVALID_ARGUMENT, what);
  request.allow_dev_plugins = field<bool>(value, "allow_dev_plugins", QUERN_INVALID_ARGUMENT, what);
  request.measure = field<bool>(value, "measure", QUERN_INVALID_ARGUMENT, what);
  request.options.threads = field<std::uint32_t>(value, "threads", QUERN_INVALID_ARGUMENT, what);
  request.options.cache_directory =
      field<std::string>(value, "cache_directory", QUERN_INVALID_ARGUMENT, what);
  try {
    request.options.options = value.at("options").get<std::map<std::string, std::string>>();
    request.options.affinity = value.at("affinity").get<std::vector<std::uint32_t>>();
  } catch (const json::exception& wrong) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(what, ": ", wrong.what()));
  }
  return request;
}

json to_value(const DeviceInfo& info) {
  return {{"class", info.device_class},
          {"vendor_id", info.vendor_id},
          {"caps", info.caps},
          {"name", info.name},
          {"architecture", info.architecture},
          {"driver_have", info.driver_have},
          {"driver_need", info.driver_need},
          {"pci_address", info.pci_address},
          {"uuid", info.uuid},
          {"memory_alignment", info.memory_alignment},
          {"max_allocation", info.max_allocation},
          {"heap_count", info.heap_count},
          {"numa_node", info.numa_node}};
}

json to_value(const Examination& examination) {
  json reasons = json::array(), devices = json::array();
  for (const Reason& r : examination.reasons)
    reasons.push_back({{"code", static_cast<std::uint32_t>(r.code)},
                       {"text", r.text},
                       {"missing", r.missing},
                       {"remedy", r.remedy}});
  for (const ProbedDevice& d : examination.devices)
    devices.push_back(
        {{"info", to_value(d.info)}, {"verdict", to_value(d.verdict)}, {"bandwidth", d.bandwidth}});
  return {{"stage", stage_number(examination.stage)},
          {"verdict", to_value(examination.verdict)},
          {"id", examination.id},
          {"version", examination.version},
          {"build", examination.build},
          {"abi_minor", examination.abi_minor},
          {"reasons", std::move(reasons)},
          {"devices", std::move(devices)},
          {"printed", examination.printed}};
}

Examination examination_from(const json& value) {
  Examination made;
  made.stage = stage_from(answer<std::uint32_t>(value, "stage"));
  made.verdict = verdict_from(value.value("verdict", json()));
  made.id = answer<std::string>(value, "id");
  made.version = answer<std::string>(value, "version");
  made.build = answer<std::string>(value, "build");
  made.abi_minor = answer<std::uint32_t>(value, "abi_minor");
  made.printed = answer<std::string>(value, "printed");
  for (const json& r : list(value, "reasons", QUERN_IO, result_words))
    made.reasons.push_back({static_cast<quern_status>(answer<std::uint32_t>(r, "code")),
                            answer<std::string>(r, "text"), answer<std::string>(r, "missing"),
                            answer<std::string>(r, "remedy")});
  for (const json& d : list(value, "devices", QUERN_IO, result_words)) {
    if (!d.is_object()) throw Error(QUERN_IO, concat(result_words, ": a device is not an object"));
    made.devices.push_back({info_from(d.value("info", json())), verdict_from(d.value("verdict", json())),
                            answer<double>(d, "bandwidth")});
  }
  return made;
}

}  // namespace quern::loader
