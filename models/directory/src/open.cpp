// From a path to a model: a GGUF file, or a directory put together as one.
#include "config.hpp"
#include "families.hpp"
#include "model_card.hpp"
#include "model_keys.hpp"
#include "quantisation.hpp"
#include "refusals.hpp"
#include "shards.hpp"
#include "special_tokens.hpp"
#include "tensor_names.hpp"
#include "tokenizer_json.hpp"

#include "quern/base/files.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/gguf_writer.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace quern::models {
namespace {

using namespace quern::directory;

bool is_directory(const std::string& path) {
  struct stat status {};
  return path.find('\0') == path.npos && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool has_file(const std::string& folder, std::string_view name) {
  base::OpenedFile file;
  return !base::open_file(path_in(folder, name), file);
}

/// The last part of the path; of a snapshot in the hub's cache, models--owner--name/snapshots/REVISION, the model's name.
std::string name_of(const std::string& folder) {
  const std::size_t end = folder.find_last_not_of('/');
  if (end == folder.npos) return "/";
  std::string path = folder.substr(0, end + 1);
  constexpr std::string_view above = "/snapshots";
  const std::size_t slash = path.rfind('/');
  if (slash != path.npos && path.substr(0, slash).ends_with(above)) {
    const std::string repository = path.substr(0, slash - above.size());
    if (const std::size_t at = repository.rfind("models--"); at != path.npos && repository.find('/', at) == path.npos)
      if (const std::size_t dashes = repository.find("--", at + 8); dashes != path.npos) return repository.substr(dashes + 2);
  }
  return path.substr(slash + 1);
}

std::uint64_t rows_of_embeddings(const std::vector<gguf::AssembledTensor>& tensors, const std::string& folder) {
  const auto at = std::ranges::find(tensors, std::string_view("token_embd.weight"),
                                    [](const auto& part) { return std::string_view(part.tensor.name); });
  if (at == tensors.end()) throw Error(QUERN_BAD_MODEL, concat(folder, ": tensor 'model.embed_tokens.weight' is missing"));
  return at->tensor.dims[1];
}

gguf::File open_directory(const std::string& folder, ActOrder act_order) {
  auto file = JsonFile::find(path_in(folder, "config.json"));
  if (!file) refuse_without_config(folder);
  const Config config(std::move(*file));
  Quantisation quantisation = read_quantisation(folder, config);
  quantisation.act_order = act_order;
  const Family& family = family_of(config);
  gguf::Writer keys;
  keys.string("general.architecture", family.architecture);
  keys.string("general.name", name_of(folder));
  write_card_keys(folder, keys);
  const Shape shape = write_model_keys(config, family, keys);
  const Shards shards = read_shards(folder);
  gguf::Assembly parts;
  parts.name = folder;
  parts.files = {config.file().path()};
  parts.files.insert(parts.files.end(), shards.files.begin(), shards.files.end());
  AssembledTensors tensors = assembled_tensors(shards, family, shape, quantisation, 1);
  parts.tensors = std::move(tensors.all);
  parts.notes = std::move(tensors.notes);
  const TokenList tokens = write_tokenizer_keys(folder, rows_of_embeddings(parts.tensors, folder), keys);
  write_special_tokens(folder, config, tokens, keys);
  write_templates(folder, keys);
  parts.keys = keys.bytes_of_keys();
  return gguf::File::assemble(std::move(parts));
}

}  // namespace

bool is_model_directory(const std::string& path) {
  return is_directory(path) && has_file(path, "config.json") && !has_file(path, "adapter_config.json");
}

gguf::File open_model(const std::string& path, ActOrder act_order) {
  return is_directory(path) ? open_directory(path, act_order) : gguf::File::open(path);
}

}  // namespace quern::models
