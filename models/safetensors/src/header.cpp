#include "header.hpp"

#include "dtypes.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/json.hpp"
#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace quern::safetensors {
namespace {

constexpr std::string_view metadata_name = "__metadata__";

Error refused(const std::string& file, const std::string& tensor, std::string_view text) {
  return Error(QUERN_BAD_MODEL, concat(file, ": tensor ", in_quotes(tensor), ": ", text));
}

void read_metadata(const Json& value, const std::string& file, std::map<std::string, std::string>& out) {
  if (!value.is_object()) throw Error(QUERN_BAD_MODEL, concat(file, ": the header's '__metadata__' is not an object"));
  for (const Json::Member& member : *value.members()) {
    if (member.value.text() == nullptr)
      throw Error(QUERN_BAD_MODEL, concat(file, ": the header's '__metadata__' has ", in_quotes(member.name), ", which is not text"));
    if (!out.emplace(member.name, *member.value.text()).second)
      throw Error(QUERN_BAD_MODEL, concat(file, ": the header's '__metadata__' has ", in_quotes(member.name), " twice"));
  }
}

/// The three members of a tensor's record.
struct Record {
  const std::string* dtype = nullptr;
  const Json::List* shape = nullptr;
  const Json::List* offsets = nullptr;
};

Record read_record(const Json::Member& tensor, const std::string& file) {
  const Json::Members* members = tensor.value.members();
  if (members == nullptr) throw refused(file, tensor.name, "its record in the header is not an object");
  Record record;
  for (const Json::Member& member : *members) {
    if (member.name == "dtype") record.dtype = member.value.text();
    else if (member.name == "shape") record.shape = member.value.list();
    else if (member.name == "data_offsets") record.offsets = member.value.list();
    else throw refused(file, tensor.name, concat("its record has ", in_quotes(member.name), ", which the format does not have"));
  }
  if (record.dtype == nullptr) throw refused(file, tensor.name, "'dtype' is missing or is not text");
  if (record.shape == nullptr) throw refused(file, tensor.name, "'shape' is missing or is not a list");
  if (record.offsets == nullptr) throw refused(file, tensor.name, "'data_offsets' is missing or is not a list");
  if (members->size() != 3) throw refused(file, tensor.name, "its record has a member twice");
  return record;
}

std::vector<std::uint64_t> read_shape(const Json::List& list, const std::string& file, const std::string& tensor) {
  if (list.size() > most_dimensions)
    throw refused(file, tensor, concat("'shape' has ", list.size(), " dimensions; at most ", most_dimensions, " are read"));
  std::vector<std::uint64_t> shape;
  for (const Json& size : list) {
    if (size.count() == nullptr) throw refused(file, tensor, "'shape' holds what is not a whole number of 0 or more");
    shape.push_back(*size.count());
  }
  return shape;
}

TensorInfo read_tensor(const Json::Member& member, std::uint64_t data_bytes, const std::string& file) {
  TensorInfo info;
  info.name = member.name;
  const Record record = read_record(member, file);
  const std::optional<Dtype> dtype = find_dtype(*record.dtype);
  if (!dtype) throw refused(file, info.name, concat("'dtype' is ", in_quotes(*record.dtype), ", which is not a known type"));
  info.dtype = *dtype;
  info.shape = read_shape(*record.shape, file, info.name);
  const std::optional<std::uint64_t> bytes = byte_count(info.dtype, info.shape);
  if (!bytes)
    throw refused(file, info.name, concat("'shape' gives more elements than a file holds, or no whole bytes of ", name_of(info.dtype)));
  if (record.offsets->size() != 2 || (*record.offsets)[0].count() == nullptr || (*record.offsets)[1].count() == nullptr)
    throw refused(file, info.name, "'data_offsets' is not two whole numbers of 0 or more");
  const std::uint64_t first = *(*record.offsets)[0].count(), end = *(*record.offsets)[1].count();
  if (first > end || end > data_bytes)
    throw refused(file, info.name,
                  concat("'data_offsets' are ", first, " and ", end, ", but the file has ", data_bytes,
                         " bytes behind its header; the download is probably incomplete"));
  if (end - first != *bytes)
    throw refused(file, info.name,
                  concat("'data_offsets' give ", end - first, " bytes, but ", name_of(info.dtype), " of its shape takes ", *bytes));
  info.offset = first;
  info.bytes = *bytes;
  return info;
}

/// The format leaves no byte to nobody and none to two.
void check_cover(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t at = 0;
  for (const TensorInfo& info : tensors) {
    if (info.offset != at)
      throw refused(file, info.name,
                    concat("its bytes begin at ", info.offset, " behind the header, ",
                           info.offset < at ? "inside another tensor, which ends at " : "and leave a gap behind ", at));
    at += info.bytes;
  }
  if (at != data_bytes)
    throw Error(QUERN_BAD_MODEL,
                concat(file, ": the tensors end ", at, " bytes behind the header, but the file has ", data_bytes, " there"));
}

std::vector<std::uint32_t> sort_names(const std::vector<TensorInfo>& tensors, const std::string& file) {
  std::vector<std::uint32_t> by_name(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::ranges::sort(by_name, {}, [&](std::uint32_t i) { return std::string_view(tensors[i].name); });
  for (std::size_t i = 1; i < by_name.size(); ++i)
    if (tensors[by_name[i]].name == tensors[by_name[i - 1]].name) throw refused(file, tensors[by_name[i]].name, "is there twice");
  return by_name;
}

/// Not called `quoted`: with <iomanip> in sight, std::quoted would be the better match for a std::string.
std::string json_text(std::string_view text) {
  JsonWriter writer(JsonWriter::Style::one_line);
  writer.value(text);
  return writer.take();
}

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  if (text.empty() || text.front() != '{')
    throw Error(QUERN_BAD_MODEL, concat(file, ": the header does not begin with '{'; this is not a safetensors file"));
  // A tensor's record of 8 dimensions has 14 values in 66 bytes or more; all others have fewer values a byte.
  const auto values = static_cast<std::size_t>(std::min<std::uint64_t>(Json::most_values, text.size() / 4 + 16));
  std::string why;
  const std::optional<Json> json = Json::parse(text, values, &why);
  if (!json) throw Error(QUERN_BAD_MODEL, concat(file, ": the header is ", why));
  if (!json->is_object()) throw Error(QUERN_BAD_MODEL, concat(file, ": the header is not an object of tensors"));
  Header header;
  bool metadata = false;
  for (const Json::Member& member : *json->members()) {
    if (member.name != metadata_name) {
      header.tensors.push_back(read_tensor(member, data_bytes, file));
      continue;
    }
    if (metadata) throw Error(QUERN_BAD_MODEL, concat(file, ": the header has '__metadata__' twice"));
    metadata = true;
    read_metadata(member.value, file, header.metadata);
  }
  std::ranges::stable_sort(header.tensors, {}, [](const TensorInfo& info) { return std::pair(info.offset, info.bytes); });
  check_cover(header.tensors, data_bytes, file);
  header.by_name = sort_names(header.tensors, file);
  for (TensorInfo& info : header.tensors) info.offset += 8 + text.size();
  return header;
}

std::string header_text(const std::map<std::string, std::string>& metadata, const std::vector<TensorInfo>& tensors) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += concat(json_text(metadata_name), ":{");
    for (const auto& [key, value] : metadata) text += concat(text.back() == '{' ? "" : ",", json_text(key), ":", json_text(value));
    text += '}';
  }
  for (const TensorInfo& info : tensors) {
    text += concat(text.size() == 1 ? "" : ",", json_text(info.name), ":{\"dtype\":\"", name_of(info.dtype), "\",\"shape\":[");
    for (std::size_t i = 0; i < info.shape.size(); ++i) text += concat(i == 0 ? "" : ",", info.shape[i]);
    text += concat("],\"data_offsets\":[", info.offset, ",", info.offset + info.bytes, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace quern::safetensors
