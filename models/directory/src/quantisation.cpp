#include "quantisation.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <array>

namespace quern::directory {
namespace {

constexpr std::string_view read_methods = "AWQ (gemm), GPTQ (4 and 8 bits), compressed-tensors, FP8 and bitsandbytes";
constexpr std::uint64_t most_group = 1 << 24;

/// The object with the fields, and where it stands.
struct Fields {
  const JsonFile& file;
  const Json& json;
  std::string front;  // "quantization_config."

  std::string name(std::string_view field) const { return concat(front, field); }
  const Json* find(std::string_view field) const {
    const Json* const value = json.find(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::optional<std::string> text(std::string_view field) const { return text_of(file, name(field), json.find(field)); }
  bool flag(std::string_view field, bool absent) const { return bool_of(file, name(field), json.find(field)).value_or(absent); }
  Error bad(std::string_view field, std::string_view text) const { return file.bad(name(field), text); }
  Error unsupported(std::string_view field, std::string_view text) const { return file.unsupported(name(field), text); }
};

/// -1 and absent: 0, for all columns.
std::uint64_t group_of(const Fields& fields, std::string_view field, const Json* value) {
  if (value == nullptr || value->is_null()) return 0;
  const std::optional<std::int64_t> number = value->integer();
  if (!number || (*number != -1 && (*number < 1 || *number > static_cast<std::int64_t>(most_group))))
    throw fields.bad(field, concat("is not -1 or a whole number of 1 to ", most_group));
  return *number == -1 ? 0 : static_cast<std::uint64_t>(*number);
}

std::uint32_t bits_of(const Fields& fields, std::initializer_list<std::uint64_t> read) {
  const std::optional<std::uint64_t> bits = count_of(fields.file, fields.name("bits"), fields.json.find("bits"), 1, 32);
  if (!bits) throw fields.bad("bits", "is missing; it says how many bits a weight has");
  if (std::ranges::find(read, *bits) == read.end())
    throw fields.unsupported("bits", concat("is ", *bits, "; weights of this method are read in 4", read.size() > 1 ? " and 8" : "",
                                            " bits; use the original directory or a GGUF file"));
  return static_cast<std::uint32_t>(*bits);
}

Quantisation awq(const Fields& fields) {
  const std::string version = fields.text("version").value_or("gemm");
  if (version != "gemm" && version != "GEMM")
    throw fields.unsupported("version", concat("is ", in_quotes(version, 48), "; of AWQ the version gemm is read"));
  Quantisation made;
  made.method = Method::awq;
  made.bits = bits_of(fields, {4});
  made.group = group_of(fields, "group_size", fields.find("group_size"));
  return made;
}

Quantisation gptq(const Fields& fields) {
  const std::string form = fields.text("checkpoint_format").value_or(fields.text("format").value_or("gptq"));
  if (form != "gptq" && form != "gptq_v2")
    throw fields.unsupported("checkpoint_format", concat("is ", in_quotes(form, 48), "; gptq and gptq_v2 are read"));
  Quantisation made;
  made.method = Method::gptq;
  made.zeros_less_one = form == "gptq";
  made.symmetric = fields.flag("sym", true);
  const std::uint32_t bits = bits_of(fields, {4, 8});
  const std::uint64_t group = group_of(fields, "group_size", fields.find("group_size"));
  if (fields.find("dynamic") != nullptr) return made;  // some modules have others
  made.bits = bits;
  made.group = group;
  return made;
}

/// auto-round writes what other methods read.
Quantisation auto_round(const Fields& fields) {
  const std::string packing = fields.text("packing_format").value_or("auto_round:auto_gptq");
  if (packing.ends_with("auto_gptq")) return gptq(fields);
  if (packing.ends_with("auto_awq")) return awq(fields);
  throw fields.unsupported("packing_format", concat("is ", in_quotes(packing, 48), "; auto_gptq and auto_awq are read"));
}

void require_read_form(const Fields& fields, std::string_view field, const Json& value) {
  constexpr std::string_view forms[] = {"pack-quantized",  "int-quantized",   "float-quantized",
                                        "naive-quantized", "mixed-precision", "dense"};
  const std::string* const form = value.text();
  if (form == nullptr) throw fields.bad(field, "is not text");
  if (std::ranges::find(forms, *form) == std::end(forms))
    throw fields.unsupported(field, concat("is ", in_quotes(*form, 48), "; pack-quantized, int-quantized and float-quantized are read"));
}

/// Rows and columns of a block that has one scale.
void read_block_sides(const Fields& fields, std::string_view field, const Json* block, Quantisation& made) {
  if (block == nullptr || block->is_null()) return;
  const auto side = [&](std::size_t i) {
    const Json::List* const list = block->list();
    const std::uint64_t* const count = list == nullptr || list->size() != 2 ? nullptr : (*list)[i].count();
    if (count == nullptr || *count < 1 || *count > most_group)
      throw fields.bad(field, concat("is not two whole numbers of 1 to ", most_group));
    return *count;
  };
  made.block_rows = side(0);
  made.block_columns = side(1);
  if (made.block_columns % 128 != 0)
    throw fields.unsupported(field, concat("has ", made.block_columns, " columns; multiples of 128 are read"));
}

Quantisation compressed(const Fields& fields) {
  Quantisation made;
  made.method = Method::compressed;
  if (const Json* form = fields.find("format")) require_read_form(fields, "format", *form);
  if (const Json* sparsity = fields.find("sparsity_config"); sparsity != nullptr)
    if (const Json* form = sparsity->find("format"); form != nullptr && (form->text() == nullptr || *form->text() != "dense"))
      throw fields.unsupported("sparsity_config.format", "is not dense; sparse weights are not read");
  const Json* const groups = fields.find("config_groups");
  if (groups == nullptr || groups->members() == nullptr) throw fields.bad("config_groups", "is missing or is not an object");
  for (const Json::Member& group : *groups->members()) {
    const std::string front = concat("config_groups.", group.name);
    if (!group.value.is_object()) throw fields.bad(front, "is not an object");
    if (const Json* form = group.value.find("format"); form != nullptr && !form->is_null())
      require_read_form(fields, concat(front, ".format"), *form);
    const Json* const weights = group.value.find("weights");
    if (weights == nullptr || !weights->is_object()) throw fields.bad(concat(front, ".weights"), "is missing or is not an object");
    group_of(fields, concat(front, ".weights.group_size"), weights->find("group_size"));
    read_block_sides(fields, concat(front, ".weights.block_structure"), weights->find("block_structure"), made);
  }
  return made;
}

Quantisation fp8(const Fields& fields) {
  Quantisation made;
  made.method = Method::fp8;
  read_block_sides(fields, "weight_block_size", fields.find("weight_block_size"), made);
  return made;
}

Quantisation bitsandbytes(const Fields&) {
  Quantisation made;
  made.method = Method::bitsandbytes;
  return made;
}

struct Row {
  std::string_view method;
  Quantisation (*read)(const Fields&);
};
constexpr std::array<Row, 7> rows = {{{"awq", awq},
                                      {"gptq", gptq},
                                      {"auto-round", auto_round},
                                      {"compressed-tensors", compressed},
                                      {"fp8", fp8},
                                      {"fbgemm_fp8", fp8},
                                      {"bitsandbytes", bitsandbytes}}};

Quantisation read_fields(const Fields& fields, std::string_view field, const std::string& method) {
  const auto at = std::ranges::find(rows, method, &Row::method);
  if (at == rows.end())
    throw fields.file.unsupported(field, concat("is there, so the weights are quantised",
                                                method.empty() ? "" : concat(" by ", in_quotes(method, 48)), "; this version reads ",
                                                read_methods, ", directories in bf16, f16 and f32, and quantised GGUF files"));
  return at->read(fields);
}

}  // namespace

Quantisation read_quantisation(const std::string& folder, const Config& config) {
  // MLX writes "quantization" beside the field of transformers.
  if (const Json* mlx = config.find("quantization"); mlx != nullptr && mlx->is_object())
    throw config.file().unsupported("quantization",
                                    "is MLX's; models written by MLX are not read, use the original directory or a GGUF file");
  for (const std::string_view field : {"quantization_config", "compression_config"}) {
    const Json* const found = config.find(field);
    if (found == nullptr || found->is_null()) continue;
    if (!found->is_object()) throw config.file().bad(field, "is not an object");
    const auto method = text_of(config.file(), concat(field, ".quant_method"), found->find("quant_method"));
    return read_fields({config.file(), *found, concat(field, ".")}, field,
                       method.value_or(field == "compression_config" ? "compressed-tensors" : ""));
  }
  if (const auto beside = JsonFile::find(path_in(folder, "quantize_config.json"))) {
    const auto method = text_of(*beside, "quant_method", beside->json().find("quant_method"));
    return read_fields({*beside, beside->json(), ""}, "quant_method", method.value_or("gptq"));
  }
  return {};
}

}  // namespace quern::directory
