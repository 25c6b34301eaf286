// Names of a directory's tensors to those of the graph, with what is done to each: one table for both.
#pragma once

#include "families.hpp"
#include "model_keys.hpp"
#include "quantisation.hpp"
#include "shards.hpp"

#include "quern/models/gguf.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::directory {

/// Which heads' rows are interleaved, in families that do so.
enum class Rows : std::uint8_t { as_they_lie, of_queries, of_keys };

struct NameRow {
  std::string_view theirs, ours;
  Rows rows = Rows::as_they_lie;
  bool outside = false;  // written without the prefix of the text model
};

struct NameTable {
  std::span<const NameRow> whole;   // of the model
  std::span<const NameRow> layers;  // behind "layers.N." and "blk.N."
};
const NameTable& name_table() noexcept;

struct AssembledTensors {
  std::vector<gguf::AssembledTensor> all;
  std::vector<gguf::Note> notes;  // of weights that are not read in the format that they have, and of what was chosen
};

/// All tensors that the graph reads; those that no inference needs are left out. Shards are numbered from `first_file` on. Throws
/// Error(QUERN_UNSUPPORTED) for a tensor that the table does not have, or of a type that holds no weights.
AssembledTensors assembled_tensors(const Shards& shards, const Family& family, const Shape& shape, const Quantisation& quantisation,
                                   std::uint32_t first_file, const NameTable& names = name_table());

/// The place of a tensor of the graph in a directory.
struct DirectoryTensor {
  std::string name;
  std::uint64_t heads = 0;  // whose rows are to be put in the directory's order (rows_from_graph); 0: none
};

/// The same table backwards. Nothing for a tensor that it does not have.
std::optional<DirectoryTensor> directory_tensor(std::string_view ours, const Family& family, const Shape& shape);

/// What the reader makes of config.json's rotation and no directory holds.
inline constexpr std::string_view made_tensor = "rope_freqs.weight";

}  // namespace quern::directory
