// quern_show_json: what a file of a model or an adapter has, without loading it.
//
// The text has a few MiB at most, whatever the file holds. Long strings and arrays are shown as their type and size. Keys and tensors
// behind what fits are counted.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/peft.hpp"
#include "quern/models/safetensors.hpp"

#include <functional>
#include <map>
#include <set>

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

struct ShownTensor {
  std::string_view name;
  std::string dtype;
  std::span<const std::uint64_t> shape;
  std::uint64_t parameters, bytes;
};

/// What the files of models and of adapters have in common.
struct Contents {
  std::vector<std::string_view> keys;
  std::function<void(JsonWriter&, std::string_view key)> write_value;
  std::vector<ShownTensor> tensors;
};

Contents contents_of(const gguf::File& file) {
  Contents contents{file.keys(), [&file](JsonWriter& json, std::string_view key) { write_value(json, file, key); }, {}};
  for (const gguf::TensorInfo& tensor : file.tensors())
    contents.tensors.push_back({tensor.name, graph::dtype_name(tensor.dtype), std::span(tensor.dims).first(tensor.n_dims),
                                tensor.parameters(), tensor.bytes});
  return contents;
}

Contents contents_of(const safetensors::File& file) {
  Contents contents;
  for (const auto& [key, text] : file.metadata()) contents.keys.push_back(key);
  contents.write_value = [&file](JsonWriter& json, std::string_view key) {
    write_string(json, std::string_view(file.metadata().at(std::string(key))));
  };
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    const quern_dtype dtype = safetensors::float_type(tensor.dtype);
    contents.tensors.push_back({tensor.name,
                                dtype == QUERN_DTYPE_NONE ? std::string(safetensors::name_of(tensor.dtype)) : graph::dtype_name(dtype),
                                tensor.shape, tensor.elements(), tensor.bytes});
  }
  return contents;
}

/// Returns how many are left out.
std::size_t write_metadata(JsonWriter& json, const Contents& contents) {
  const std::size_t most = json.size() + most_text;
  std::size_t written = 0;
  json.begin_object();
  for (; written < contents.keys.size() && json.size() < most; ++written) {
    json.key(contents.keys[written]);
    contents.write_value(json, contents.keys[written]);
  }
  json.end_object();
  return contents.keys.size() - written;
}

/// Returns how many are left out.
std::size_t write_tensors(JsonWriter& json, const Contents& contents) {
  const std::size_t most = json.size() + most_text;
  std::size_t written = 0;
  json.begin_array();
  for (; written < contents.tensors.size() && json.size() < most; ++written) {
    const ShownTensor& tensor = contents.tensors[written];
    json.begin_object();
    json.member("name", tensor.name);
    json.member("dtype", tensor.dtype);
    json.member("shape", tensor.shape);
    json.member("bytes", tensor.bytes);
    json.end_object();
  }
  json.end_array();
  return contents.tensors.size() - written;
}

/// The members that end the object.
void write_contents(JsonWriter& json, const Contents& contents) {
  std::map<std::string, std::uint64_t> weights;
  for (const ShownTensor& tensor : contents.tensors) weights[tensor.dtype] += tensor.bytes;
  json.key("weights");
  json.begin_object();
  for (const auto& [dtype, bytes] : weights) json.member(dtype, bytes);
  json.end_object();
  json.key("metadata");
  const std::size_t keys_left_out = write_metadata(json, contents);
  json.key("tensors");
  const std::size_t tensors_left_out = write_tensors(json, contents);
  if (keys_left_out != 0) json.member("metadata_left_out", keys_left_out);
  if (tensors_left_out != 0) json.member("tensors_left_out", tensors_left_out);
  json.end_object();
}

std::uint64_t parameters_of(const Contents& contents) {
  std::uint64_t parameters = 0;
  for (const ShownTensor& tensor : contents.tensors) parameters += tensor.parameters;
  return parameters;
}

/// What an adapter changes and how much: each number that occurs once. A GGUF file has neither dropout nor rsLoRA.
void write_adapter(JsonWriter& json, const peft::Adapter& adapter, std::size_t tensors, bool of_gguf) {
  std::set<std::int64_t> ranks;
  std::set<double> alphas, scales;
  std::set<peft::Target> targets;
  std::set<std::uint32_t> layers;
  for (const peft::AdapterMatrix& matrix : adapter.matrices) {
    ranks.insert(matrix.rank);
    alphas.insert(matrix.alpha.value_or(adapter.alpha));
    scales.insert(adapter.scale(matrix));
    targets.insert(matrix.target);
    layers.insert(matrix.layer);
  }
  json.begin_object();
  json.member("ranks", ranks);
  json.member("alphas", alphas);
  json.member("rslora", of_gguf ? std::nullopt : std::optional(adapter.rslora));
  json.member("scales", scales);
  json.member("dropout", of_gguf ? std::nullopt : std::optional(adapter.dropout));
  json.key("targets");
  json.begin_array();
  for (const peft::Target target : targets) json.value(peft::peft_name(target));
  json.end_array();
  json.member("layers", layers);
  json.member("matrices", adapter.matrices.size());
  json.member("tensors", tensors);
  json.end_object();
}

/// The members that follow the head of an adapter's object. Where the reader refuses it, the rest is still worth showing.
void write_adapter_members(JsonWriter& json, const std::function<peft::Adapter()>& read, const Contents& contents, bool of_gguf) {
  std::optional<peft::Adapter> adapter;
  std::optional<std::string> refusal;
  try {
    adapter = read();
  } catch (const Error& error) { refusal = error.what(); }
  json.key("base_model");
  write_string(json, adapter && !adapter->base_model.empty() ? std::optional<std::string_view>(adapter->base_model) : std::nullopt);
  json.member("parameters", parameters_of(contents));
  json.key("adapter");
  if (adapter) write_adapter(json, *adapter, contents.tensors.size(), of_gguf);
  else json.value(nullptr);
  json.member("refusal", refusal);
  write_contents(json, contents);
}

constexpr std::string_view what_is_shown =
    "a model is a GGUF file or a Hugging Face directory, and an adapter a peft folder, its adapter_model.safetensors or a GGUF file";

std::string show_folder(const std::string& path, const std::string& folder) {
  base::OpenedFile config, tensors;
  const std::string name = concat(folder, "/adapter_model.safetensors");
  if (base::open_file(concat(folder, "/adapter_config.json"), config).fault == base::FileFault::not_found)
    throw Error(QUERN_NOT_FOUND, path == folder ? concat(path, ": is a folder without adapter_config.json; ", what_is_shown)
                                                : concat(path, ": there is no adapter_config.json beside it; ", what_is_shown));
  if (base::open_file(name, tensors)) peft::read_folder(folder);  // which says why, also of other files that would be there instead
  const safetensors::File file = safetensors::File::open(name);
  const Contents contents = contents_of(file);
  JsonWriter json;
  json.begin_object();
  json.member("file", path);
  json.member("file_bytes", static_cast<std::uint64_t>(tensors.status.st_size));
  json.member("kind", "adapter");
  json.member("format", "peft");
  json.member("version", nullptr);
  json.member("architecture", nullptr);  // the folder does not name it
  json.member("name", nullptr);
  write_adapter_members(
      json, [&] { return peft::read_folder(folder); }, contents, false);
  return json.take();
}

gguf::File open_shown(const std::string& path) {
  try {
    return models::open_model(path, models::ActOrder::by_groups);
  } catch (const Error& error) {
    std::string head;
    if (error.code() != QUERN_BAD_MODEL || base::read_head(path, head, 4) || head == "GGUF") throw;
    throw Error(error.code(), concat(error.what(), "; ", what_is_shown));
  }
}

std::string show(const std::string& path) {
  if (const std::optional<std::string> folder = peft::folder_of(path); folder && !models::is_model_directory(path))
    return show_folder(path, *folder);
  const gguf::File file = open_shown(path);
  const Contents contents = contents_of(file);
  const bool is_adapter = peft::is_adapter(file);
  const auto architecture = file.find_string("general.architecture");
  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  JsonWriter json;
  json.begin_object();
  json.member("file", file.name());
  json.member("file_bytes", file.file_bytes());
  json.member("kind", is_adapter ? "adapter" : "model");
  json.member("format", file.version() != 0 ? "gguf" : "safetensors");
  json.member("version", file.version() != 0 ? std::optional(file.version()) : std::nullopt);
  json.key("architecture");
  write_string(json, architecture);
  json.key("name");
  write_string(json, file.find_string("general.name"));
  if (is_adapter) {
    write_adapter_members(
        json, [&] { return peft::describe_gguf(file); }, contents, true);
    return json.take();
  }
  json.member("parameters", file.tensors().empty() ? std::nullopt : std::optional(parameters_of(contents)));
  json.member("context_length", architecture ? file.find_u64(concat(*architecture, ".context_length")) : std::nullopt);
  json.member("vocabulary_size", tokens ? std::optional(tokens->size()) : std::nullopt);
  json.key("chat_template");
  write_string(json, file.find_string("tokenizer.chat_template"));
  write_shape_or_refusal(json, file);
  json.key("warnings");
  json.begin_array();
  if (const std::string warning = pre_tokenizer_warning(file); !warning.empty()) json.value(warning);
  json.end_array();
  json.key("notes");
  json.begin_array();
  for (const gguf::Note& note : file.notes()) json.value(note.text);
  json.end_array();
  write_contents(json, contents);
  return json.take();
}

}  // namespace

extern "C" quern_status quern_show_json(const char* path, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    *out = make_text(show(path));
  });
}
