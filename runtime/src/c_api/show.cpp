// quern_show_json: what a model file says of itself, without loading it.
#include "boundary.hpp"
#include "handles.hpp"

#include <nlohmann/json.hpp>

#include <map>

using namespace quern;
using namespace quern::c_api;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint64_t longest_array = 16;

/// Arrays that are short enough to be shown whole; null where this key holds none.
Json short_array(const gguf::File& file, std::string_view key, gguf::ValueType element) {
  Json list = Json::array();
  switch (element) {
    case gguf::ValueType::string:
      for (const std::string_view s : file.require_strings(key)) list.push_back(std::string(s));
      break;
    case gguf::ValueType::f32:
    case gguf::ValueType::f64: {
      const gguf::FloatArray values = file.require_floats(key);
      for (std::uint64_t i = 0; i < values.size(); ++i) list.push_back(values[i]);
      break;
    }
    default: {
      const gguf::IntArray values = file.require_ints(key);
      for (std::uint64_t i = 0; i < values.size(); ++i) list.push_back(values[i]);
      break;
    }
  }
  return list;
}

Json value_json(const gguf::File& file, std::string_view key) {
  const std::optional<gguf::ValueType> type = file.type_of(key);
  if (!type) return {};
  switch (*type) {
    case gguf::ValueType::string: return std::string(file.require_string(key));
    case gguf::ValueType::boolean: return file.require_bool(key);
    case gguf::ValueType::f32:
    case gguf::ValueType::f64: {
      const auto number = file.find_f64(key);
      return number ? Json(*number) : Json();
    }
    case gguf::ValueType::u64: return file.require_u64(key);
    case gguf::ValueType::array: {
      const auto shape = file.array_shape(key);
      if (shape->count <= longest_array) return short_array(file, key, shape->element);
      return {{"type", std::string(gguf::name_of(shape->element))}, {"count", shape->count}};
    }
    default: return file.require_i64(key);
  }
}

Json shape_json(const models::Hyperparameters& shape) {
  return {{"hidden", shape.hidden},
          {"feed_forward", shape.ffn},
          {"layers", shape.layers},
          {"vocabulary", shape.vocabulary},
          {"heads", shape.heads},
          {"kv_heads", shape.kv_heads},
          {"head_size", shape.head_size},
          {"tied", shape.tied_head},
          {"rope_base", shape.rope_base},
          {"sliding_window", shape.sliding_window}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json show(const gguf::File& file) {
  Json json{{"file", file.name()}, {"file_bytes", file.file_bytes()}, {"format", "gguf"}, {"version", file.version()}};
  const auto architecture = file.find_string("general.architecture");
  const auto name = file.find_string("general.name");
  json["architecture"] = architecture ? Json(std::string(*architecture)) : Json();
  json["name"] = name ? Json(std::string(*name)) : Json();
  std::uint64_t parameters = 0;
  std::map<std::string, std::uint64_t> weights;
  Json tensors = Json::array();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    parameters += tensor.elements();
    weights[graph::dtype_name(tensor.dtype)] += tensor.bytes;
    Json dims = Json::array();
    for (std::uint32_t d = 0; d < tensor.n_dims; ++d) dims.push_back(tensor.dims[d]);
    tensors.push_back({{"name", tensor.name}, {"dtype", graph::dtype_name(tensor.dtype)}, {"shape", dims}, {"bytes", tensor.bytes}});
  }
  json["parameters"] = file.tensors().empty() ? Json() : Json(parameters);
  json["context_length"] = architecture ? or_null(file.find_u64(concat(*architecture, ".context_length"))) : Json();
  const auto tokens = file.find_strings("tokenizer.ggml.tokens");
  json["vocabulary_size"] = tokens ? Json(tokens->size()) : Json();
  const auto chat_template = file.find_string("tokenizer.chat_template");
  json["chat_template"] = chat_template ? Json(std::string(*chat_template)) : Json();
  json["shape"] = Json();
  json["refusal"] = Json();
  if (!file.tensors().empty()) {
    try {
      json["shape"] = shape_json(models::read_hyperparameters(file));
    } catch (const Error& refusal) {
      json["refusal"] = refusal.what();  // the rest of the file is still worth showing
    }
  }
  json["weights"] = weights;
  json["metadata"] = Json::object();
  for (const std::string_view key : file.keys()) json["metadata"][std::string(key)] = value_json(file, key);
  json["tensors"] = std::move(tensors);
  return json;
}

}  // namespace

extern "C" quern_status quern_show_json(const char* path, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    *out = make_text(show(gguf::File::open(path)).dump(2, ' ', false, Json::error_handler_t::replace));
  });
}
