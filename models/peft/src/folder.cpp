// PEFT folders: adapter_config.json and adapter_model.safetensors.
#include "config.hpp"
#include "lists.hpp"
#include "pairs.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/safetensors.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace quern::peft {
namespace {

constexpr std::string_view config_name = "/adapter_config.json";
constexpr std::string_view tensors_name = "/adapter_model.safetensors";
constexpr std::uint64_t most_config_bytes = 1 << 20;

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

/// "lora_A.weight", or "lora_A.default.weight" as older releases of peft have it, off the end: 'A' or 'B', or nothing.
std::optional<Half> take_half(std::string_view& name) {
  constexpr std::string_view end = ".weight";
  if (!name.ends_with(end)) return std::nullopt;
  name.remove_suffix(end.size());
  for (const auto& [text, half] : {std::pair(std::string_view(".lora_A"), Half::a), std::pair(std::string_view(".lora_B"), Half::b)}) {
    const std::size_t at = name.rfind(text);
    if (at == std::string_view::npos) continue;
    const std::string_view adapter = name.substr(at + text.size());  // "" or ".default"
    if (!adapter.empty() && (adapter.size() == 1 || adapter.rfind('.') != 0)) return std::nullopt;
    name = name.substr(0, at);
    return half;
  }
  return std::nullopt;
}

/// The matrix that a tensor's name means. The name stands alone, or behind "base_model.model." once or twice.
std::optional<Place> place_of(std::string_view name) {
  const std::optional<Half> half = take_half(name);
  if (!half) return std::nullopt;
  for (int i = 0; i < 2; ++i) take_front(name, "base_model.model.");
  take_front(name, "model.");
  if (!take_front(name, "layers.")) return std::nullopt;
  const std::optional<std::uint32_t> layer = take_layer(name);
  if (!layer) return std::nullopt;
  for (const Target target : every_target)
    if (name == peft_module(target)) return Place{*layer, target, *half};
  return std::nullopt;
}

template <typename T>
T of_module(const Pattern<T>& pattern, std::string_view module, T otherwise) {
  const auto at = std::ranges::find_if(pattern, [&](const auto& one) { return applies_to(one.first, module); });
  return at == pattern.end() ? otherwise : at->second;
}

/// What the configuration has for one matrix: its alpha, whether its rank is right, and whether peft would load it at all.
void apply_config(const Config& config, const safetensors::File& file, AdapterMatrix& matrix) {
  const std::string module = "model." + matrix.name();
  const std::int64_t rank = of_module(config.ranks, module, config.rank);
  if (matrix.rank != rank)
    throw Error(QUERN_BAD_MODEL,
                concat(file.name(), ": ", matrix.name(), " has a rank of ", matrix.rank, ", but the configuration has ", rank));
  if (config.modules && std::ranges::none_of(*config.modules, [&](const std::string& key) { return applies_to(key, module); }))
    throw Error(QUERN_BAD_MODEL, concat(file.name(), ": ", matrix.name(), " is in the file, but not among target_modules"));
  const double alpha = of_module(config.alphas, module, config.alpha);
  if (alpha != config.alpha) matrix.alpha = alpha;
}

Adapter read_tensors(const Config& config, const safetensors::File& file) {
  Pairs pairs(file.name());
  for (const safetensors::TensorInfo& info : file.tensors()) {
    const std::optional<Place> place = place_of(info.name);
    if (!place) {
      pairs.add_unknown(info.name);
      continue;
    }
    if (info.shape.size() != 2) throw file.bad_tensor(info.name, concat("has ", info.shape.size(), " dimensions; A and B have 2"));
    pairs.add(*place, info.name, info.shape[0], info.shape[1], [&] { return file.read_f32(info); });
  }
  Adapter adapter;
  adapter.alpha = config.alpha;
  adapter.rank = config.rank;
  adapter.rslora = config.rslora;
  adapter.dropout = config.dropout;
  adapter.base_model = config.base_model;
  adapter.matrices = pairs.take();
  for (AdapterMatrix& matrix : adapter.matrices) apply_config(config, file, matrix);
  return adapter;
}

bool is_there(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

Adapter read_folder(const std::string& folder) {
  const std::string config_path = concat(folder, config_name), tensors_path = concat(folder, tensors_name);
  if (is_there(folder) && !is_there(config_path))
    throw Error(QUERN_NOT_FOUND, concat(folder, ": has no adapter_config.json, so it is not the folder of a peft adapter"));
  std::string text;
  check_read(base::read_file(config_path, text, {.most = most_config_bytes}));
  const Config config = read_config(text, config_path);
  if (!is_there(tensors_path) && is_there(concat(folder, "/adapter_model.bin")))
    throw Error(QUERN_UNSUPPORTED, concat(folder, ": has adapter_model.bin, a pickle file; save the adapter as safetensors with peft"));
  return read_tensors(config, safetensors::File::open(tensors_path));
}

std::optional<std::string> folder_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return path;
  if (path.ends_with(tensors_name)) return path.substr(0, path.size() - tensors_name.size());
  return path == tensors_name.substr(1) ? std::optional<std::string>(".") : std::nullopt;
}

Adapter read_memory(std::string_view config, std::span<const std::byte> tensors, const std::string& name) {
  return read_tensors(read_config(config, concat(name, config_name)), safetensors::File::from_memory(tensors, concat(name, tensors_name)));
}

void write_folder(const Adapter& adapter, const std::string& folder, quern_dtype dtype) {
  check_writable(adapter);
  const std::optional<safetensors::Dtype> type = safetensors::from_float_type(dtype);
  if (!type)
    throw Error(QUERN_INVALID_ARGUMENT, concat(folder, ": an adapter of type ", dtype, " was asked for; f32, f16 and bf16 are written"));
  std::vector<std::vector<std::byte>> bytes;
  std::vector<safetensors::NewTensor> tensors;
  for (const AdapterMatrix& matrix : adapter.matrices) {
    const std::string name = concat("base_model.model.model.", matrix.name());
    const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    bytes.push_back(models::encode_floats(dtype, matrix.a));
    tensors.push_back({name + ".lora_A.weight", *type, {size(matrix.rank), size(matrix.inputs)}, bytes.back()});
    bytes.push_back(models::encode_floats(dtype, matrix.b));
    tensors.push_back({name + ".lora_B.weight", *type, {size(matrix.outputs), size(matrix.rank)}, bytes.back()});
  }
  check_written(base::make_folders(folder));
  safetensors::write(concat(folder, tensors_name), tensors, {{"format", "pt"}});
  check_written(base::write_file(concat(folder, config_name), config_text(adapter)));
}

}  // namespace quern::peft
