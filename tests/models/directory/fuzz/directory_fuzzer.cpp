// Fuzzes one file of a directory, whose other files are sound.
//
//   byte 0   which file: see names
//   rest     the file
//
// A refusal is an Error with QUERN_BAD_MODEL or QUERN_UNSUPPORTED. Of a model that opens, every tensor is read.
#include "../refused_directory.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace {

using namespace quern;

constexpr std::string_view names[] = {"config.json",           "generation_config.json",
                                      "tokenizer_config.json", "model.safetensors.index.json",
                                      "quantize_config.json",  "README.md",
                                      "chat_template.jinja",   "adapter_config.json",
                                      "model.safetensors"};

/// Puts a file aside for one input, so that another is looked for.
class Aside {
 public:
  Aside(std::string path, std::string to) : path_(std::move(path)), to_(std::move(to)) { std::filesystem::rename(path_, to_); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() { std::filesystem::rename(to_, path_); }

 private:
  std::string path_, to_;
};

void open_or_refuse(const test::RefusableDirectory& directory) {
  const quern_status code = directory.refusal().code;
  if (code != QUERN_OK && code != QUERN_BAD_MODEL && code != QUERN_UNSUPPORTED) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const test::RefusableDirectory directory(1);
  const std::string name(names[data[0] % std::size(names)]), path = directory.path(name), kept = path + ".kept";
  // An index counts where the weights have another name, an adapter's file where there is no model's.
  std::optional<Aside> replaced, hidden;
  if (std::filesystem::exists(path)) replaced.emplace(path, kept);
  if (name == "model.safetensors.index.json") hidden.emplace(directory.path("model.safetensors"), directory.path("a.safetensors"));
  if (name == "adapter_config.json") hidden.emplace(directory.path("config.json"), directory.path("config.kept"));
  test::write_text(path, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  open_or_refuse(directory);
  std::filesystem::remove(path);
  return 0;
}
