// GGUF adapters, as llama.cpp reads and writes them.
#include "lists.hpp"
#include "pairs.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/gguf_writer.hpp"
#include "quern/quern_formats.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace quern::peft {
namespace {

/// The only block format that converters write adapters in: a scale in f16 and 32 signed bytes a block.
std::vector<float> decode_q8_0(std::span<const std::byte> bytes) {
  constexpr std::size_t block_bytes = 34, scale_bytes = 2;
  std::vector<float> numbers;
  numbers.reserve(bytes.size() / block_bytes * (block_bytes - scale_bytes));
  for (; bytes.size() >= block_bytes; bytes = bytes.subspan(block_bytes)) {
    const float scale = models::decode_floats(QUERN_F16, bytes.first(scale_bytes))[0];
    for (const std::byte code : bytes.subspan(scale_bytes, block_bytes - scale_bytes))
      numbers.push_back(scale * static_cast<float>(std::bit_cast<std::int8_t>(code)));
  }
  return numbers;
}

std::vector<float> read_numbers(const gguf::File& file, const gguf::TensorInfo& info) {
  return info.dtype == QUERN_Q8_0 ? decode_q8_0(file.data(info)) : models::decode_floats(info.dtype, file.data(info));
}

/// "blk.3.attn_q.weight.lora_a"
std::optional<Place> place_of_tensor(std::string_view name) {
  constexpr std::string_view front = "blk.";
  if (!name.starts_with(front)) return std::nullopt;
  name.remove_prefix(front.size());
  const std::optional<std::uint32_t> layer = take_layer(name);
  if (!layer) return std::nullopt;
  for (const Target target : every_target) {
    if (name == concat(gguf_name(target), ".weight.lora_a")) return Place{*layer, target, Half::a};
    if (name == concat(gguf_name(target), ".weight.lora_b")) return Place{*layer, target, Half::b};
  }
  return std::nullopt;
}

void check_kind(const gguf::File& file) {
  if (const auto type = file.find_string("general.type"); !is_adapter(file))
    throw file.bad_key("general.type", type ? concat("is ", in_quotes(*type), ", so this is not an adapter")
                                            : std::string("is missing, so this is a model and not an adapter"));
  if (const std::string_view kind = file.require_string("adapter.type"); kind != "lora")
    throw Error(QUERN_UNSUPPORTED, concat(file.name(), ": key 'adapter.type' is ", in_quotes(kind), "; lora is read"));
  if (file.has("adapter.alora.invocation_tokens"))
    throw Error(QUERN_UNSUPPORTED,
                concat(file.name(), ": key 'adapter.alora.invocation_tokens': adapters that begin at a token are not read"));
}

/// The name that peft loads the base by, where the file has its address; else its name, or nothing.
std::string base_name(const gguf::File& file) {
  constexpr std::string_view hub = "https://huggingface.co/";
  const std::string_view address = file.find_string("general.base_model.0.repo_url").value_or("");
  if (address.starts_with(hub)) return std::string(address.substr(hub.size()));
  return std::string(file.find_string("general.base_model.0.name").value_or(""));
}

/// Heads whose rows of B the file may have in another order; 0 for targets without rotary pairs.
std::int64_t rotary_heads(Target target, const BaseShape& base) {
  if (target == Target::q) return base.heads;
  return target == Target::k ? base.kv_heads : 0;
}

void reorder(AdapterMatrix& matrix, const BaseShape& base, RowOrder from, RowOrder to) {
  const std::int64_t heads = rotary_heads(matrix.target, base);
  if (heads == 0 || from == to) return;
  if (matrix.outputs % heads != 0 || matrix.outputs / heads % 2 != 0)
    throw Error(QUERN_BAD_MODEL, concat("the adapter does not fit the base: ", matrix.name(), " has ", matrix.outputs,
                                        " rows, which are not ", heads, " heads of an even size"));
  matrix.b = reorder_rows(matrix.b, matrix.rank, heads, from, to);
}

/// The alpha that the file has to have, so that alpha / rank is each matrix's scale.
double file_alpha(const Adapter& adapter) {
  const auto wanted = [&](const AdapterMatrix& matrix) { return adapter.scale(matrix) * static_cast<double>(matrix.rank); };
  const double alpha = wanted(adapter.matrices.front());
  for (const AdapterMatrix& matrix : adapter.matrices)
    if (std::fabs(wanted(matrix) - alpha) > 1e-9 * std::fabs(alpha))
      throw Error(QUERN_UNSUPPORTED, concat("a GGUF adapter has one alpha, but ", adapter.matrices.front().name(), " would need ", alpha,
                                            " and ", matrix.name(), " ", wanted(matrix), "; keep the adapter as a peft folder"));
  const auto rounded = static_cast<float>(alpha);
  if (!std::isfinite(rounded) || rounded == 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat("the adapter cannot be written: its alpha, ", alpha, ", is no f32 other than 0"));
  return alpha;
}

/// With the rows of B as the file has them.
Adapter read_as_stored(const gguf::File& file) {
  Adapter adapter;
  adapter.alpha = file.require_f64("adapter.lora.alpha");
  adapter.base_model = base_name(file);
  Pairs pairs(file.name());
  for (const gguf::TensorInfo& info : file.tensors()) {
    const std::optional<Place> place = place_of_tensor(info.name);
    if (!place) {
      pairs.add_unknown(info.name);
      continue;
    }
    if (info.n_dims != 2) throw file.bad_tensor(info.name, concat("has ", info.n_dims, " dimensions; A and B have 2"));
    if (info.dtype != QUERN_Q8_0 && models::float_bytes(info.dtype) == 0)
      throw Error(QUERN_UNSUPPORTED, concat(file.name(), ": tensor ", in_quotes(info.name), ": is of type ", gguf::type_name(info.dtype),
                                            "; adapters are read in F32, F16, BF16 and Q8_0"));
    pairs.add(*place, info.name, info.dims[1], info.dims[0], [&file, &info] { return read_numbers(file, info); });
  }
  adapter.matrices = pairs.take();
  adapter.rank = adapter.matrices.front().rank;
  if (adapter.alpha == 0) {  // which stands for a scale of 1 there, whatever the rank
    for (AdapterMatrix& matrix : adapter.matrices) matrix.alpha = static_cast<double>(matrix.rank);
    adapter.alpha = static_cast<double>(adapter.rank);
  }
  return adapter;
}

}  // namespace

bool is_adapter(const gguf::File& file) { return file.find_string("general.type") == "adapter"; }

Adapter describe_gguf(const gguf::File& file) {
  check_kind(file);
  return read_as_stored(file);
}

Adapter read_gguf(const gguf::File& file, const BaseShape& base) {
  check_kind(file);
  if (const std::string_view name = file.require_string("general.architecture"); name != base.architecture)
    throw file.bad_key("general.architecture", concat("is ", in_quotes(name), ", but the base is ", in_quotes(base.architecture)));
  Adapter adapter = read_as_stored(file);
  for (AdapterMatrix& matrix : adapter.matrices) reorder(matrix, base, gguf_row_order(base.architecture), RowOrder::halves);
  return adapter;
}

Adapter read_gguf(const std::string& path, const BaseShape& base) { return read_gguf(gguf::File::open(path), base); }

void write_gguf(const Adapter& adapter, const BaseShape& base, const std::string& path, quern_dtype dtype, std::string_view name) {
  check_writable(adapter);
  check_fits(adapter, base);
  gguf::Writer writer;
  writer.string("general.architecture", base.architecture);
  writer.string("general.type", "adapter");
  writer.string("adapter.type", "lora");
  if (!name.empty()) writer.string("general.name", name);
  if (!adapter.base_model.empty()) {
    writer.u32("general.base_model.count", 1);
    writer.string("general.base_model.0.name", adapter.base_model);
  }
  writer.f32("adapter.lora.alpha", static_cast<float>(file_alpha(adapter)));
  writer.u32("general.quantization_version", 2);
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  for (const AdapterMatrix& matrix : adapter.matrices) {
    const std::string tensor = concat("blk.", matrix.layer, ".", gguf_name(matrix.target), ".weight.lora_");
    writer.tensor(tensor + "a", {size(matrix.inputs), size(matrix.rank)}, dtype);
    writer.tensor(tensor + "b", {size(matrix.rank), size(matrix.outputs)}, dtype);
  }
  writer.begin(path);
  for (AdapterMatrix matrix : adapter.matrices) {
    reorder(matrix, base, RowOrder::halves, gguf_row_order(base.architecture));
    writer.append(models::encode_floats(dtype, matrix.a));
    writer.append(models::encode_floats(dtype, matrix.b));
  }
  writer.commit();
}

}  // namespace quern::peft
