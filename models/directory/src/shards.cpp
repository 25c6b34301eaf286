#include "shards.hpp"

#include "json_file.hpp"
#include "refusals.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace quern::directory {
namespace {

constexpr std::string_view single_name = "model.safetensors", index_name = "model.safetensors.index.json";
constexpr std::size_t most_files = 1024, most_tensors = 65536;
constexpr std::uint64_t most_index_bytes = 32 << 20;

bool is_there(const std::string& path) {
  base::OpenedFile file;
  return !base::open_file(path, file);
}

void add_file(Shards& shards, std::string path) {
  const auto number = static_cast<std::uint32_t>(shards.files.size());
  safetensors::File file = safetensors::File::open(path);
  if (const auto format = file.metadata().find("format"); format != file.metadata().end() && format->second == "mlx")
    throw Error(QUERN_UNSUPPORTED,
                concat(path, ": its 'format' is mlx; models written by MLX are not read, use the original directory or a GGUF file"));
  if (file.tensors().size() > most_tensors - shards.tensors.size())
    throw Error(QUERN_BAD_MODEL, concat(path, ": with it the model has more than ", most_tensors, " tensors"));
  for (const safetensors::TensorInfo& tensor : file.tensors()) shards.tensors.push_back({tensor, number});
  shards.files.push_back(std::move(path));
  shards.readers.push_back(std::move(file));
}

/// Names of files in the directory itself, so that no path leaves it.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

/// File names of the index in their order, each once, and which one each tensor is said to be in.
std::map<std::string, std::string> read_index(const JsonFile& index) {
  const Json* const map = index.json().find("weight_map");
  if (map == nullptr || !map->is_object()) throw index.bad("weight_map", "is missing or is not an object");
  std::map<std::string, std::string> files;
  for (const Json::Member& member : *map->members()) {
    const std::string* const name = member.value.text();
    if (name == nullptr) throw index.bad(member.name, "of 'weight_map' is not the name of a file");
    if (!is_plain_name(*name))
      throw index.bad(member.name, concat("of 'weight_map' is in ", in_quotes(*name), ", which is not a name inside the directory"));
    if (!files.emplace(member.name, *name).second) throw index.bad(member.name, "is twice in 'weight_map'");
  }
  if (files.empty()) throw index.bad("weight_map", "names no tensor");
  return files;
}

Shards read_indexed(const std::string& folder, const JsonFile& index) {
  const std::map<std::string, std::string> map = read_index(index);
  std::vector<std::string> names;
  for (const auto& [tensor, name] : map) names.push_back(name);
  std::ranges::sort(names);
  const auto rest = std::ranges::unique(names);
  names.erase(rest.begin(), rest.end());
  if (names.size() > most_files) throw index.bad("weight_map", concat("names ", names.size(), " files; at most ", most_files, " are read"));
  Shards shards;
  for (const std::string& name : names) {
    try {
      add_file(shards, path_in(folder, name));
    } catch (const Error& error) {
      if (error.code() != QUERN_NOT_FOUND) throw;
      throw Error(QUERN_BAD_MODEL, concat(error.what(), "; ", index.path(), " names it, so the download is probably incomplete"));
    }
  }
  std::map<std::string_view, const std::string*> lies_in;
  for (const StoredTensor& tensor : shards.tensors) lies_in.emplace(tensor.info.name, &names[tensor.file]);
  for (const auto& [tensor, name] : map) {
    const auto found = lies_in.find(tensor);
    if (found == lies_in.end() || *found->second != name)
      throw index.bad(tensor, concat("of 'weight_map' is in ", in_quotes(name),
                                     ", but that file has no such tensor; the files are of different models"));
  }
  return shards;
}

void refuse_twice(const Shards& shards) {
  std::map<std::string_view, std::uint32_t> seen;
  for (const StoredTensor& tensor : shards.tensors)
    if (const auto [at, is_new] = seen.emplace(tensor.info.name, tensor.file); !is_new)
      throw Error(QUERN_BAD_MODEL, concat(shards.files[tensor.file], ": tensor ", in_quotes(tensor.info.name),
                                          ": is there twice; the other one is in ", shards.files[at->second]));
}

}  // namespace

Shards read_shards(const std::string& folder) {
  Shards shards;
  if (std::string single = path_in(folder, single_name); is_there(single)) {
    add_file(shards, std::move(single));
  } else if (const auto index = JsonFile::find(path_in(folder, index_name), most_index_bytes)) {
    shards = read_indexed(folder, *index);
  } else {
    refuse_without_weights(folder);
  }
  refuse_twice(shards);
  return shards;
}

}  // namespace quern::directory
