// See directory_files.hpp.
#include "directory_files.hpp"

#include "model_name.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace quern::hub {
namespace {

constexpr std::string_view config_name = "config.json", weights_name = "model.safetensors", index_name = "model.safetensors.index.json";

// What readers of a directory open, beside its weights.
constexpr std::array other_names = {
    std::string_view("generation_config.json"),
    std::string_view("tokenizer.json"),
    std::string_view("tokenizer_config.json"),
    std::string_view("special_tokens_map.json"),
    std::string_view("added_tokens.json"),
    std::string_view("vocab.json"),
    std::string_view("merges.txt"),
    std::string_view("tokenizer.model"),
    std::string_view("tiktoken.model"),
    std::string_view("tekken.json"),
    std::string_view("chat_template.jinja"),
    std::string_view("chat_template.json"),
    std::string_view("quantize_config.json"),
    std::string_view("quant_config.json"),
    std::string_view("hf_quant_config.json"),
    std::string_view("processor_config.json"),
    std::string_view("README.md"),
};

bool is_needed(std::string_view path) {
  constexpr std::string_view templates = "additional_chat_templates/";
  if (path.starts_with(templates)) return path.ends_with(".jinja") && path.find('/', templates.size()) == path.npos;
  if (path.find('/') != path.npos) return false;
  return std::ranges::find(other_names, path) != other_names.end() || path.ends_with(".tiktoken") || path.starts_with("LICENSE");
}

bool is_pickle(std::string_view path) {
  return std::ranges::any_of(std::array<std::string_view, 4>{".bin", ".pt", ".pth", ".ckpt"},
                             [&](auto end) { return path.ends_with(end); });
}

}  // namespace

bool selects_directory(std::string_view selector) {
  return std::ranges::equal(selector, directory_selector, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

DirectoryFiles directory_files(const std::vector<std::string>& paths) {
  DirectoryFiles files;
  for (std::size_t at = 0; at < paths.size(); ++at) {
    const std::string_view path = paths[at];
    if (path == config_name) files.config = at;
    else if (path == weights_name) files.weights = at;
    else if (path == index_name) files.index = at;
    else if (path == "adapter_config.json") files.has_adapter = true;
    else if (is_needed(path)) files.others.push_back(at);
    else if (is_pickle(path) && !files.pickle) files.pickle = at;
  }
  if (files.weights) files.index.reset();
  return files;
}

std::vector<std::string> shards_of_index(const std::string& json, const std::string& what) {
  constexpr std::size_t most_values = 2'000'000;
  std::string why;
  const std::optional<Json> index = Json::parse(json, most_values, &why);
  if (!index) throw Error(QUERN_BAD_MODEL, concat(what, ": is ", why));
  const Json* const map = index->find("weight_map");
  if (map == nullptr || map->members() == nullptr)
    throw Error(QUERN_BAD_MODEL, concat(what, ": 'weight_map' is missing or is not an object"));
  std::vector<std::string> names;
  for (const Json::Member& tensor : *map->members()) {
    const std::string* const name = tensor.value.text();
    if (name == nullptr || !is_safe_path(*name) || name->find('/') != name->npos || !name->ends_with(".safetensors"))
      throw Error(QUERN_BAD_MODEL, concat(what, ": 'weight_map' has ", name == nullptr ? "no text" : in_quotes(*name, 100), " for ",
                                          in_quotes(tensor.name, 100), ", which is not the name of a file of weights beside it"));
    if (names.empty() || names.back() != *name) names.push_back(*name);
  }
  if (names.empty()) throw Error(QUERN_BAD_MODEL, concat(what, ": 'weight_map' is empty"));
  std::ranges::sort(names);
  const auto rest = std::ranges::unique(names);
  names.erase(rest.begin(), rest.end());
  return names;
}

}  // namespace quern::hub
