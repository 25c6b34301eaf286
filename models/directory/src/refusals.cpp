#include "refusals.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/folder.hpp"

#include <algorithm>
#include <vector>

namespace quern::directory {
namespace {

constexpr std::size_t most_names = 4096;

/// The first name with one of these ends; empty if there is none.
std::string first_with_end(const std::vector<std::string>& names, std::initializer_list<std::string_view> ends) {
  for (const std::string& name : names)
    if (std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); })) return name;
  return {};
}

}  // namespace

void refuse_without_config(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder, most_names);
  if (const auto adapter = JsonFile::find(path_in(folder, "adapter_config.json"))) {
    const auto base = text_of(*adapter, "base_model_name_or_path", adapter->json().find("base_model_name_or_path"));
    throw Error(QUERN_UNSUPPORTED, concat(folder, ": is an adapter without its base", base ? concat(", which is ", in_quotes(*base)) : "",
                                          "; run the base with --adapter ", folder));
  }
  if (const std::string file = first_with_end(names, {".gguf"}); !file.empty())
    throw Error(QUERN_BAD_MODEL, concat(folder, ": is a folder, not a file; name a GGUF file in it, such as ", in_quotes(file)));
  throw Error(QUERN_BAD_MODEL,
              concat(folder, ": is a folder, not a file, and has no config.json; a model is a GGUF file or a Hugging Face directory"));
}

void refuse_without_weights(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder, most_names);
  if (const std::string pickle = first_with_end(names, {".bin", ".pt", ".pth", ".ckpt"}); !pickle.empty())
    throw Error(QUERN_UNSUPPORTED, concat(folder, ": has its weights in ", in_quotes(pickle),
                                          ", a pickle file, which may run code; save the model as safetensors with transformers"));
  if (const std::string other = first_with_end(names, {".safetensors"}); !other.empty())
    throw Error(QUERN_UNSUPPORTED, concat(folder, ": has ", in_quotes(other),
                                          ", but neither model.safetensors nor model.safetensors.index.json, which are read"));
  throw Error(QUERN_BAD_MODEL, concat(folder,
                                      ": has neither model.safetensors nor model.safetensors.index.json; the download is "
                                      "probably incomplete"));
}

}  // namespace quern::directory
