#include "quantised_modules.hpp"

#include "block_packing.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <span>

namespace quern::directory {
namespace {

using safetensors::Dtype;

struct Names {
  Method method;
  std::span<const std::string_view> anchors;  // one of them is the weight itself
  std::span<const std::string_view> beside;
  QuantisedWeight (*weight)(const ModuleContext&, const QuantisedModule&);
};

constexpr std::string_view packed_anchors[] = {"qweight"}, awq_beside[] = {"qzeros", "scales"};
constexpr std::string_view gptq_beside[] = {"qzeros", "scales", "g_idx"};
constexpr std::string_view compressed_anchors[] = {"weight_packed", "weight"};
constexpr std::string_view compressed_beside[] = {"weight_scale", "weight_zero_point", "weight_shape", "weight_g_idx"};
constexpr std::string_view weight_anchors[] = {"weight"}, fp8_beside[] = {"weight_scale_inv", "weight_scale"};
constexpr std::string_view bitsandbytes_beside[] = {"weight.absmax",
                                                    "weight.quant_map",
                                                    "weight.nested_absmax",
                                                    "weight.nested_quant_map",
                                                    "weight.quant_state.bitsandbytes__nf4",
                                                    "weight.quant_state.bitsandbytes__fp4",
                                                    "SCB",
                                                    "weight_format"};
constexpr Names names[] = {{Method::awq, packed_anchors, awq_beside, awq_weight},
                           {Method::gptq, packed_anchors, gptq_beside, gptq_weight},
                           {Method::compressed, compressed_anchors, compressed_beside, compressed_weight},
                           {Method::fp8, weight_anchors, fp8_beside, fp8_weight},
                           {Method::bitsandbytes, weight_anchors, bitsandbytes_beside, bitsandbytes_weight}};

const Names* names_of(Method method) noexcept {
  const auto at = std::ranges::find(names, method, &Names::method);
  return at == std::end(names) ? nullptr : &*at;
}

/// A plain weight has the same name as one of codes.
bool holds_codes(Dtype dtype) noexcept { return dtype == Dtype::i8 || dtype == Dtype::u8 || dtype == Dtype::f8_e4m3; }

/// The part of the table that a name ends with, behind a dot; empty if there is none.
std::string_view part_of(const safetensors::TensorInfo& info, const Names& table) {
  const auto ends = [&](std::string_view part) {
    const std::string_view name = info.name;
    return name.size() > part.size() + 1 && name.ends_with(part) && name[name.size() - part.size() - 1] == '.';
  };
  std::string_view longest;
  for (const auto& list : {table.anchors, table.beside})
    for (const std::string_view part : list)
      if (ends(part) && part.size() > longest.size() && (part != "weight" || holds_codes(info.dtype))) longest = part;
  return longest;
}

std::string text_of_shape(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += concat(d == 0 ? "" : ", ", shape[d]);
  return text + "]";
}

/// The columns of the first group, then those of the second, each as they lie; nothing where a group has more or fewer than `group`.
std::vector<std::uint32_t> columns_by_group(const std::vector<std::uint32_t>& group_of, std::uint64_t group) {
  std::vector<std::uint64_t> taken(group_of.size() / group);
  std::vector<std::uint32_t> order(group_of.size());
  for (std::uint32_t column = 0; column < group_of.size(); ++column) {
    const std::uint32_t of = group_of[column];
    if (taken[of] == group) return {};
    order[of * group + taken[of]++] = column;
  }
  return order;
}

}  // namespace

const StoredTensor* QuantisedModule::find(std::string_view part) const noexcept {
  const auto at = parts.find(part);
  return at == parts.end() ? nullptr : at->second;
}

std::string ModuleContext::where(const StoredTensor& tensor) const {
  return concat(shards.files[tensor.file], ": tensor ", in_quotes(tensor.info.name), ": ");
}

Error ModuleContext::refused(quern_status code, const StoredTensor& tensor, std::string_view text) const {
  return Error(code, concat(where(tensor), text));
}

const StoredTensor& ModuleContext::require(const QuantisedModule& module, std::string_view part) const {
  if (const StoredTensor* found = module.find(part)) return *found;
  const StoredTensor& other = *module.parts.begin()->second;
  throw refused(QUERN_BAD_MODEL, other, concat("is there without ", in_quotes(concat(module.name, ".", part)), "; both make one weight"));
}

void ModuleContext::check(const StoredTensor& tensor, const std::vector<std::uint64_t>& shape, std::initializer_list<Dtype> dtypes) const {
  if (std::ranges::find(dtypes, tensor.info.dtype) == dtypes.end()) {
    std::string list;
    for (const Dtype dtype : dtypes) list += concat(list.empty() ? "" : " or ", safetensors::name_of(dtype));
    throw refused(QUERN_BAD_MODEL, tensor, concat("is ", safetensors::name_of(tensor.info.dtype), "; it must be ", list));
  }
  if (tensor.info.shape != shape)
    throw refused(QUERN_BAD_MODEL, tensor,
                  concat("has the shape ", text_of_shape(tensor.info.shape), "; with the others of its weight it must be ",
                         text_of_shape(shape)));
}

Modules find_modules(const ModuleContext& context) {
  Modules modules;
  modules.of.assign(context.shards.tensors.size(), Modules::none);
  const Names* const table = names_of(context.quantisation.method);
  if (table == nullptr) return modules;
  std::map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < context.shards.tensors.size(); ++i) {
    const StoredTensor& tensor = context.shards.tensors[i];
    const std::string_view part = part_of(tensor.info, *table);
    if (part.empty()) continue;
    const std::string_view name = std::string_view(tensor.info.name).substr(0, tensor.info.name.size() - part.size() - 1);
    const auto [at, is_new] = by_name.emplace(name, modules.all.size());
    if (is_new) modules.all.push_back({std::string(name), {}});
    modules.all[at->second].parts.emplace(part, &tensor);
    modules.of[i] = at->second;
  }
  for (const QuantisedModule& module : modules.all)
    if (std::ranges::none_of(table->anchors, [&](std::string_view anchor) { return module.find(anchor) != nullptr; }))
      throw context.refused(QUERN_BAD_MODEL, *module.parts.begin()->second, "is part of a quantised weight that is not there");
  return modules;
}

std::vector<std::uint32_t> columns_in_other_groups(const ModuleContext& context, const StoredTensor& index, std::uint64_t columns,
                                                   std::uint64_t group) {
  context.check(index, {columns}, {Dtype::i32});
  const std::vector<std::byte> bytes = context.read(index);
  std::vector<std::uint32_t> groups(columns);
  bool in_order = true;
  for (std::uint64_t i = 0; i < columns; ++i) {
    groups[i] = word_at(bytes, i);
    if (groups[i] >= columns / group)
      throw context.refused(QUERN_BAD_MODEL, index,
                            concat("has the group ", static_cast<std::int32_t>(groups[i]), " at index ", i, "; there are ", columns / group,
                                   " groups"));
    in_order = in_order && groups[i] == i / group;
  }
  if (in_order) groups.clear();
  return groups;
}

void place_columns(const ModuleContext& context, QuantisedWeight& weight, const std::vector<std::uint32_t>& group_of, std::uint64_t group,
                   const StoredTensor& index, const StoredTensor& scales) {
  if (context.quantisation.act_order == models::ActOrder::by_groups && weight.dtype != QUERN_DTYPE_NONE)
    weight.order = columns_by_group(group_of, group);
  if (!weight.order.empty()) {
    weight.index = &index;
    return;
  }
  weight.expanded = "their columns are in the order of their activations ('desc_act')";
  weight.dtype = safetensors::float_type(scales.info.dtype);
}

QuantisedWeight quantised_weight(const ModuleContext& context, const QuantisedModule& module) {
  return names_of(context.quantisation.method)->weight(context, module);
}

}  // namespace quern::directory
