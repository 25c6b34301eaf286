// quern_show_json: what a model file says of itself, without loading it.
//
// The text has a few MiB at most, whatever the file holds. Long strings and arrays are shown as their type and size. Keys and tensors
// behind what fits are counted.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/graph/json_writer.hpp"

#include <map>

using namespace quern;
using namespace quern::c_api;

namespace {

constexpr std::uint64_t longest_array = 16, longest_string = 64 << 10;
/// Bytes of text from which on keys, and then tensors, are left out.
constexpr std::size_t most_text = 2 << 20;

/// A string, or its type and size where it is long.
void write_string(JsonWriter& json, std::string_view text) {
  if (text.size() <= longest_string) return json.value(text);
  json.begin_object();
  json.member("type", gguf::name_of(gguf::ValueType::string));
  json.member("bytes", text.size());
  json.end_object();
}

void write_string(JsonWriter& json, const std::optional<std::string_view>& text) {
  if (text) write_string(json, *text);
  else json.value(nullptr);
}

/// Arrays that are short enough to be shown whole.
void write_short_array(JsonWriter& json, const gguf::File& file, std::string_view key, gguf::ValueType element) {
  json.begin_array();
  switch (element) {
    case gguf::ValueType::string:
      for (const std::string_view s : file.require_strings(key)) write_string(json, s);
      break;
    case gguf::ValueType::f32:
    case gguf::ValueType::f64: {
      const gguf::FloatArray values = file.require_floats(key);
      for (std::uint64_t i = 0; i < values.size(); ++i) json.value(static_cast<double>(values[i]));
      break;
    }
    default: {
      const gguf::IntArray values = file.require_ints(key);
      for (std::uint64_t i = 0; i < values.size(); ++i) json.value(values[i]);
      break;
    }
  }
  json.end_array();
}

/// The value of a key; null where it holds none.
void write_value(JsonWriter& json, const gguf::File& file, std::string_view key) {
  const std::optional<gguf::ValueType> type = file.type_of(key);
  if (!type) return json.value(nullptr);
  switch (*type) {
    case gguf::ValueType::string: return write_string(json, file.require_string(key));
    case gguf::ValueType::boolean: return json.value(file.require_bool(key));
    case gguf::ValueType::f32:
    case gguf::ValueType::f64: return json.value(file.find_f64(key));
    case gguf::ValueType::u64: return json.value(file.require_u64(key));
    case gguf::ValueType::array: {
      const auto shape = file.array_shape(key);
      if (shape->count <= longest_array) return write_short_array(json, file, key, shape->element);
      json.begin_object();
      json.member("type", gguf::name_of(shape->element));
      json.member("count", shape->count);
      return json.end_object();
    }
    default: return json.value(file.require_i64(key));
  }
}

void write_shape(JsonWriter& json, const models::Hyperparameters& shape) {
  json.begin_object();
  json.member("hidden", shape.hidden);
  json.member("feed_forward", shape.ffn);
  json.member("layers", shape.layers);
  json.member("vocabulary", shape.vocabulary);
  json.member("heads", shape.heads);
  json.member("kv_heads", shape.kv_heads);
  json.member("head_size", shape.head_size);
  json.member("tied", shape.tied_head);
  json.member("rope_base", static_cast<double>(shape.rope_base));
  json.member("sliding_window", shape.sliding_window);
  json.end_object();
}

/// A file without tensors has no shape, but perhaps an architecture that is not known. What cannot be read as a shape is a refusal,
/// and the rest of the file is still worth showing.
void write_shape_or_refusal(JsonWriter& json, const gguf::File& file) {
  std::optional<models::Hyperparameters> shape;
  std::optional<std::string> refusal;
  try {
    if (!file.tensors().empty()) shape = models::read_hyperparameters(file);
    else if (file.find_string("general.architecture")) models::require_known_architecture(file);
  } catch (const Error& error) { refusal = error.what(); }
  json.key("shape");
  if (shape) write_shape(json, *shape);
  else json.value(nullptr);
  json.member("refusal", refusal);
}

/// Returns how many are left out.
std::size_t write_metadata(JsonWriter& json, const gguf::File& file) {
  const std::vector<std::string_view> keys = file.keys();
  const std::size_t most = json.size() + most_text;
  std::size_t written = 0;
  json.begin_object();
  for (; written < keys.size() && json.size() < most; ++written) {
    json.key(keys[written]);
    write_value(json, file, keys[written]);
  }
  json.end_object();
  return keys.size() - written;
}

/// Returns how many are left out.
std::size_t write_tensors(JsonWriter& json, const gguf::File& file) {
  const std::size_t most = json.size() + most_text;
  std::size_t written = 0;
  json.begin_array();
  for (; written < file.tensors().size() && json.size() < most; ++written) {
    const gguf::TensorInfo& tensor = file.tensors()[written];
    json.begin_object();
    json.member("name", tensor.name);
    json.member("dtype", graph::dtype_name(tensor.dtype));
    json.key("shape");
    json.begin_array();
    for (std::uint32_t d = 0; d < tensor.n_dims; ++d) json.value(tensor.dims[d]);
    json.end_array();
    json.member("bytes", tensor.bytes);
    json.end_object();
  }
  json.end_array();
  return file.tensors().size() - written;
}

std::string show(const gguf::File& file) {
  std::uint64_t parameters = 0;
  std::map<std::string, std::uint64_t> weights;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    parameters += tensor.elements();
    weights[graph::dtype_name(tensor.dtype)] += tensor.bytes;
  }
  const auto architecture = file.find_string("general.architecture");
  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  JsonWriter json;
  json.begin_object();
  json.member("file", file.name());
  json.member("file_bytes", file.file_bytes());
  json.member("format", "gguf");
  json.member("version", file.version());
  json.key("architecture");
  write_string(json, architecture);
  json.key("name");
  write_string(json, file.find_string("general.name"));
  json.member("parameters", file.tensors().empty() ? std::nullopt : std::optional(parameters));
  json.member("context_length", architecture ? file.find_u64(concat(*architecture, ".context_length")) : std::nullopt);
  json.member("vocabulary_size", tokens ? std::optional(tokens->size()) : std::nullopt);
  json.key("chat_template");
  write_string(json, file.find_string("tokenizer.chat_template"));
  write_shape_or_refusal(json, file);
  json.key("warnings");
  json.begin_array();
  if (const std::string warning = pre_tokenizer_warning(file); !warning.empty()) json.value(warning);
  json.end_array();
  json.key("weights");
  json.begin_object();
  for (const auto& [dtype, bytes] : weights) json.member(dtype, bytes);
  json.end_object();
  json.key("metadata");
  const std::size_t keys_left_out = write_metadata(json, file);
  json.key("tensors");
  const std::size_t tensors_left_out = write_tensors(json, file);
  if (keys_left_out != 0) json.member("metadata_left_out", keys_left_out);
  if (tensors_left_out != 0) json.member("tensors_left_out", tensors_left_out);
  json.end_object();
  return json.take();
}

}  // namespace

extern "C" quern_status quern_show_json(const char* path, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    *out = make_text(show(gguf::File::open(path)));
  });
}
