// Which files of a repository are a model as a directory: safetensors, and what they need. Pure: paths in, groups out.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::hub {

/// The selector that means the directory where a repository has GGUF files too.
inline constexpr std::string_view directory_selector = "safetensors";
bool selects_directory(std::string_view selector);

/// Indices of the given paths. Never pickle files, folders such as original/, consolidated weights, or weights of another form.
struct DirectoryFiles {
  std::optional<std::size_t> config;   // config.json
  std::optional<std::size_t> weights;  // model.safetensors
  std::optional<std::size_t> index;    // model.safetensors.index.json, where there is no model.safetensors
  std::vector<std::size_t> others;     // tokenizer, templates, licence ...
  bool has_adapter = false;            // adapter_config.json
  std::optional<std::size_t> pickle;   // a file of weights that may run code
  bool is_model() const { return config && (weights || index); }
};
DirectoryFiles directory_files(const std::vector<std::string>& paths);

/// The files that an index names, sorted, each once. Throws Error(QUERN_BAD_MODEL) beginning with `what` for text that is no index, and for a
/// name that is not one of a file beside it.
std::vector<std::string> shards_of_index(const std::string& json, const std::string& what);

}  // namespace quern::hub
