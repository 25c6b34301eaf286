// See tuned_model.hpp.
#include "tuned_model.hpp"

#include "quern/models/floats.hpp"
#include "quern/models/gguf_writer.hpp"
#include "quern/models/safetensors.hpp"

#include <algorithm>
#include <map>

namespace quern::runtime {
namespace {

constexpr const char* file_name = "model.safetensors";

constexpr std::pair<std::string_view, std::string_view> model_parts[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr std::pair<std::string_view, std::string_view> layer_parts[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

/// "attn_q" of "blk.3.attn_q.weight", "output" of "output.weight".
std::string_view part_of(std::string_view tensor) {
  if (tensor.starts_with("blk.")) tensor.remove_prefix(std::min(tensor.size(), tensor.find('.', 4) + 1));
  return tensor.substr(0, tensor.rfind('.'));
}

/// Numbers of a tensor of q or k in the other order of rows; of any other tensor as they are.
std::vector<float> reordered(std::vector<float> numbers, const gguf::TensorInfo& tensor, const peft::BaseShape& shape, peft::RowOrder from,
                             peft::RowOrder to) {
  const std::string_view part = part_of(tensor.name);
  if (from == to || (part != "attn_q" && part != "attn_k")) return numbers;
  const std::int64_t columns = tensor.n_dims > 1 ? static_cast<std::int64_t>(tensor.dims[0]) : 1;
  return peft::reorder_rows(numbers, columns, part == "attn_q" ? shape.heads : shape.kv_heads, from, to);
}

std::vector<std::uint64_t> shape_of(const gguf::TensorInfo& tensor) {
  std::vector<std::uint64_t> shape;
  for (std::uint32_t d = tensor.n_dims; d-- > 0;) shape.push_back(tensor.dims[d]);
  return shape;
}

}  // namespace

std::string hugging_face_name(const std::string& tensor) {
  const std::string_view part = part_of(tensor);
  const std::string_view kind = std::string_view(tensor).substr(tensor.rfind('.'));  // ".weight" or ".bias"
  if (tensor.starts_with("blk.")) {
    for (const auto& [ours, theirs] : layer_parts)
      if (part == ours) return concat("model.layers.", tensor.substr(4, tensor.find('.', 4) - 4), ".", theirs, kind);
  } else {
    for (const auto& [ours, theirs] : model_parts)
      if (part == ours) return concat(theirs, kind);
  }
  throw Error(QUERN_UNSUPPORTED, concat("the tensor '", tensor, "' has no name in a Hugging Face checkpoint"));
}

void write_tuned_safetensors(const std::string& folder, const gguf::File& base, const peft::BaseShape& shape,
                             const models::TrainedLayout& layout, const ReadNumbers& read) {
  safetensors::Writer writer;
  writer.metadata("format", "pt");
  std::map<std::string, const models::TrainedTensor*> by_name;
  for (const models::TrainedTensor& tensor : layout.tensors) {
    const std::string name = hugging_face_name(tensor.tensor);
    by_name[name] = &tensor;
    writer.tensor(name, safetensors::Dtype::f32, shape_of(base.require_tensor(tensor.tensor)));
  }
  writer.begin(concat(folder, "/", file_name));
  for (const safetensors::TensorInfo& info : writer.order()) {
    const models::TrainedTensor& tensor = *by_name.at(info.name);
    std::vector<float> numbers(tensor.elements);
    read(tensor.first, numbers);
    numbers = reordered(std::move(numbers), base.require_tensor(tensor.tensor), shape, peft::gguf_row_order(shape.architecture),
                        peft::RowOrder::halves);
    writer.append(std::as_bytes(std::span(numbers)));
  }
  writer.commit();
}

void read_tuned_safetensors(const std::string& folder, const gguf::File& base, const peft::BaseShape& shape,
                            const models::TrainedLayout& layout, const WriteNumbers& write) {
  const safetensors::File file = safetensors::File::open(concat(folder, "/", file_name));
  for (const models::TrainedTensor& tensor : layout.tensors) {
    const gguf::TensorInfo& info = base.require_tensor(tensor.tensor);
    const std::string name = hugging_face_name(tensor.tensor);
    const safetensors::TensorInfo* found = file.find(name);
    if (found == nullptr) throw Error(QUERN_BAD_MODEL, concat(file.name(), " has no tensor '", name, "'"));
    if (found->shape != shape_of(info)) throw file.bad_tensor(name, "has another shape than the base");
    write(tensor.first, reordered(file.read_f32(*found), info, shape, peft::RowOrder::halves, peft::gguf_row_order(shape.architecture)));
  }
}

void write_tuned_gguf(const std::string& path, const gguf::File& base, const models::TrainedLayout& layout, quern_dtype matrices,
                      const ReadNumbers& read) {
  std::map<std::string_view, const models::TrainedTensor*> trained;
  for (const models::TrainedTensor& tensor : layout.tensors) trained[tensor.tensor] = &tensor;
  const auto dtype_of = [&](const gguf::TensorInfo& tensor) {
    if (!trained.contains(tensor.name)) return tensor.dtype;
    return tensor.n_dims > 1 ? matrices : QUERN_F32;
  };
  gguf::Writer writer;
  writer.copy_keys(base);
  if (const auto name = base.find_string("general.name")) writer.string("general.name", concat(*name, " fine-tuned"));
  constexpr std::uint32_t all_f32 = 0, mostly_f16 = 1, mostly_bf16 = 32;  // of llama.cpp's list of file types
  writer.u32("general.file_type", matrices == QUERN_F32 ? all_f32 : matrices == QUERN_F16 ? mostly_f16 : mostly_bf16);
  for (const gguf::TensorInfo& tensor : base.tensors())
    writer.tensor(std::string(tensor.name), {tensor.dims, tensor.dims + tensor.n_dims}, dtype_of(tensor));
  writer.begin(path);
  for (const gguf::TensorInfo& tensor : base.tensors()) {
    const auto found = trained.find(tensor.name);
    if (found == trained.end()) {
      const gguf::TensorBytes kept = base.read(tensor);
      writer.append(kept.bytes());
      continue;
    }
    std::vector<float> numbers(found->second->elements);
    read(found->second->first, numbers);
    writer.append(models::encode_floats(dtype_of(tensor), numbers));
  }
  writer.commit();
}

}  // namespace quern::runtime
