// Weights that several tensors of a directory hold: their parts found by name, and the weight as blocks.
#pragma once

#include "changes.hpp"
#include "quantisation.hpp"
#include "shards.hpp"

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::directory {

/// The tensors of one weight, by what follows its module's name: "qweight", "weight_scale", ...
struct QuantisedModule {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::map<std::string_view, const StoredTensor*> parts;

  const StoredTensor* find(std::string_view part) const noexcept;
};

/// What every builder of a method gets.
struct ModuleContext {
  const Shards& shards;
  const Quantisation& quantisation;

  /// "<file>: tensor '<name>': <text>".
  Error refused(quern_status code, const StoredTensor& tensor, std::string_view text) const;
  std::string where(const StoredTensor& tensor) const;
  /// The bytes of a small tensor, read now.
  std::vector<std::byte> read(const StoredTensor& tensor) const { return shards.readers[tensor.file].read_bytes(tensor.info); }
  const StoredTensor& require(const QuantisedModule& module, std::string_view part) const;
  /// Throws Error(QUERN_BAD_MODEL) naming the tensor for another shape or a dtype that is not in the list.
  void check(const StoredTensor& tensor, const std::vector<std::uint64_t>& shape, std::initializer_list<safetensors::Dtype> dtypes) const;
};

/// A weight as it is assembled: without its name, and with shards numbered from 0.
struct QuantisedWeight {
  const StoredTensor* first = nullptr;       ///< the tensor that lies at the assembled one's place
  std::vector<const StoredTensor*> further;  ///< what else the change gets
  std::uint64_t rows = 0, columns = 0;
  quern_dtype dtype = QUERN_DTYPE_NONE;
  RowsChange change;
  std::string_view expanded;  ///< why it is no block format; empty if it is one
  gguf::Note zeros = {};      ///< how its zero points are read, where files differ
  /// Of columns that were put by groups: the column of the model that each is, and the tensor that says the groups.
  std::vector<std::uint32_t> order = {};
  const StoredTensor* index = nullptr;
};

/// The modules of a directory, in the order of their first tensors, and which tensors are part of one.
struct Modules {
  static constexpr std::size_t none = SIZE_MAX;
  std::vector<QuantisedModule> all;
  std::vector<std::size_t> of;  ///< for each of shards.tensors the place in `all`, or none
};

/// Throws Error(QUERN_BAD_MODEL) for a part, such as scales, without the weight that it belongs to.
Modules find_modules(const ModuleContext& context);

/// Throws Error(QUERN_BAD_MODEL) naming a tensor whose shape or type does not fit the others, QUERN_UNSUPPORTED for groups that are no blocks.
QuantisedWeight quantised_weight(const ModuleContext& context, const QuantisedModule& module);

// One a method (quantised_<method>.cpp).
QuantisedWeight awq_weight(const ModuleContext& context, const QuantisedModule& module);
QuantisedWeight gptq_weight(const ModuleContext& context, const QuantisedModule& module);
QuantisedWeight compressed_weight(const ModuleContext& context, const QuantisedModule& module);
QuantisedWeight fp8_weight(const ModuleContext& context, const QuantisedModule& module);
QuantisedWeight bitsandbytes_weight(const ModuleContext& context, const QuantisedModule& module);

/// The group of each column, as g_idx has it; empty where columns of a group lie side by side, in the order of groups. Throws
/// Error(QUERN_BAD_MODEL) for a group that is not there.
std::vector<std::uint32_t> columns_in_other_groups(const ModuleContext& context, const StoredTensor& index, std::uint64_t columns,
                                                   std::uint64_t group);

/// Of a weight whose columns have the groups `group_of`: the order of its columns by groups, where the caller asks for it and blocks have the
/// groups. Else it is expanded to the type of the scales, with the reason.
void place_columns(const ModuleContext& context, QuantisedWeight& weight, const std::vector<std::uint32_t>& group_of, std::uint64_t group,
                   const StoredTensor& index, const StoredTensor& scales);

}  // namespace quern::directory
