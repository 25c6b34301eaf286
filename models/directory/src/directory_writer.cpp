#include "changes.hpp"
#include "config_writer.hpp"
#include "families.hpp"
#include "model_card.hpp"
#include "packed_weights.hpp"
#include "special_tokens_writer.hpp"
#include "tensor_names.hpp"
#include "tokenizer_writer.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/folder.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/models/directory_writer.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/safetensors.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <random>

namespace quern::models {
namespace {

using namespace quern::directory;

/// A folder beside the one that is wanted, which is gone unless it takes that name.
class PartialFolder {
 public:
  explicit PartialFolder(std::string wanted) : wanted_(std::move(wanted)) {
    while (wanted_.size() > 1 && wanted_.ends_with('/')) wanted_.pop_back();
    const std::size_t slash = wanted_.rfind('/');
    const std::string above = slash == wanted_.npos ? "" : wanted_.substr(0, slash + 1);
    const std::string name = wanted_.substr(above.size());
    std::random_device random;
    for (int tries = 0; tries < 100; ++tries) {
      path_ = concat(above, ".", name, ".", random());
      if (::mkdir(path_.c_str(), 0777) == 0) return;
      if (errno != EEXIST) break;
    }
    const int error = errno;
    path_.clear();
    throw Error(error == EACCES || error == EPERM ? QUERN_PERMISSION : QUERN_IO, base::file_problem(wanted_, "written", error).text);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    try {
      if (!path_.empty()) remove_tree(path_);
    } catch (...) {}  // no memory for the names: it stays, hidden
  }

  std::string path_of(std::string_view name) const { return path_in(path_, name); }
  void write(std::string_view name, std::string_view text) const { check_written(base::write_file(path_of(name), text)); }
  void commit() {
    check_written(base::move_file(path_, wanted_));
    path_.clear();
  }

 private:
  std::string wanted_, path_;
};

std::uint64_t bytes_of(std::span<const StoredPart> parts) {
  std::uint64_t all = 0;
  for (const StoredPart& part : parts) all += part.bytes;
  return all;
}

struct PlacedTensor {
  const gguf::TensorInfo* tensor;
  quern_dtype dtype;
  DirectoryTensor place;
  bool packed;
  std::vector<StoredPart> parts;  // one, unless it is packed
  std::uint64_t bytes() const { return bytes_of(parts); }
};

PlacedTensor placed_tensor(const gguf::TensorInfo& tensor, DirectoryTensor place, const DirectoryForm& form) {
  PlacedTensor placed{&tensor, form.type(tensor), std::move(place), form.packed && form.packed->takes(tensor), {}};
  if (placed.packed) {
    const std::string_view name = placed.place.name;
    placed.parts = packed_parts(*form.packed, name.substr(0, name.rfind('.') + 1), tensor.dims[1], tensor.dims[0]);
  } else {
    std::vector<std::uint64_t> shape(tensor.dims, tensor.dims + tensor.n_dims);
    std::ranges::reverse(shape);
    placed.parts.push_back({placed.place.name, *safetensors::from_float_type(placed.dtype), std::move(shape),
                            tensor.elements() * float_bytes(placed.dtype)});
  }
  return placed;
}

std::vector<PlacedTensor> placed_tensors(const gguf::File& model, const Family& family, const Shape& shape, const DirectoryForm& form) {
  std::vector<PlacedTensor> all;
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    if (tensor.name == made_tensor) continue;
    std::optional<DirectoryTensor> place = directory_tensor(tensor.name, family, shape);
    if (!place)
      throw Error(QUERN_UNSUPPORTED,
                  concat(model.name(), ": tensor ", in_quotes(tensor.name), " has no place in a directory of ", family.class_name));
    all.push_back(placed_tensor(tensor, std::move(*place), form));
  }
  return all;
}

/// As many in a file as its bytes allow, one at least.
std::vector<std::span<const PlacedTensor>> shards_of(std::span<const PlacedTensor> tensors, std::uint64_t most) {
  std::vector<std::span<const PlacedTensor>> shards;
  while (!tensors.empty()) {
    std::uint64_t bytes = tensors.front().bytes();
    std::size_t count = 1;
    for (; count < tensors.size() && bytes <= most && tensors[count].bytes() <= most - bytes; ++count) bytes += tensors[count].bytes();
    shards.push_back(tensors.first(count));
    tensors = tensors.subspan(count);
  }
  return shards;
}

/// All bytes of a tensor, in the order of the directory's rows.
std::vector<std::byte> whole_tensor(const PlacedTensor& placed, quern_dtype dtype, const DirectoryForm& form) {
  std::vector<std::byte> whole;
  whole.reserve(static_cast<std::size_t>(placed.tensor->elements() * float_bytes(dtype)));
  form.give(*placed.tensor, dtype, [&](std::span<const std::byte> bytes) { whole.insert(whole.end(), bytes.begin(), bytes.end()); });
  return placed.place.heads == 0 ? whole : rows_from_graph(whole, placed.place.heads, placed.tensor->dims[placed.tensor->n_dims - 1]);
}

void append_tensor(const PlacedTensor& placed, const DirectoryForm& form, safetensors::Writer& writer) {
  const auto append = [&](std::span<const std::byte> bytes) { writer.append(bytes); };
  if (placed.packed) {
    WeightCodes codes = form.packed->encode(*placed.tensor, decode_floats(QUERN_F32, whole_tensor(placed, QUERN_F32, form)));
    for (const std::vector<std::byte>& part : packed_bytes(*form.packed, placed.tensor->dims[1], placed.tensor->dims[0], codes))
      append(part);
  } else if (placed.place.heads == 0) {
    form.give(*placed.tensor, placed.dtype, append);
  } else {
    append(whole_tensor(placed, placed.dtype, form));
  }
}

void write_shard(const std::string& path, std::span<const PlacedTensor> tensors, const DirectoryForm& form) {
  safetensors::Writer writer;
  writer.metadata("format", "pt");
  std::map<std::string_view, const PlacedTensor*> by_name;  // of the first part, behind which the others lie
  for (const PlacedTensor& placed : tensors) {
    for (const StoredPart& part : placed.parts) writer.tensor(part.name, part.dtype, part.shape);
    by_name.emplace(placed.parts.front().name, &placed);
  }
  writer.begin(path, form.packed ? safetensors::Writer::Order::as_declared : safetensors::Writer::Order::by_type);
  for (const safetensors::TensorInfo& next : writer.order())
    if (const auto at = by_name.find(next.name); at != by_name.end()) append_tensor(*at->second, form, writer);
  writer.commit();
}

std::string shard_name(std::size_t no, std::size_t count) {
  const auto digits = [](std::size_t number) {
    const std::string text = std::to_string(number);
    return std::string(5 - std::min<std::size_t>(5, text.size()), '0') + text;
  };
  return count == 1 ? "model.safetensors" : concat("model-", digits(no + 1), "-of-", digits(count), ".safetensors");
}

void write_tensors(const PartialFolder& folder, std::span<const PlacedTensor> tensors, const DirectoryForm& form) {
  const auto shards = shards_of(tensors, form.shard_bytes);
  JsonWriter index;
  std::uint64_t bytes = 0;
  for (const PlacedTensor& placed : tensors) bytes += placed.bytes();
  index.begin_object();
  index.key("metadata");
  index.begin_object();
  index.member("total_size", bytes);
  index.end_object();
  index.key("weight_map");
  index.begin_object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_shard(folder.path_of(name), shards[i], form);
    for (const PlacedTensor& placed : shards[i])
      for (const StoredPart& part : placed.parts) index.member(part.name, name);
  }
  index.end_object();
  index.end_object();
  if (shards.size() > 1) folder.write("model.safetensors.index.json", index.take() + "\n");
}

/// Modules of linear layers whose weights stay numbers.
std::vector<std::string> plain_modules(std::span<const PlacedTensor> tensors, bool tied) {
  std::vector<std::string> modules;
  for (const PlacedTensor& placed : tensors)
    if (!placed.packed && placed.tensor->n_dims > 1 && placed.tensor->name != "token_embd.weight")
      modules.push_back(placed.place.name.substr(0, placed.place.name.rfind('.')));
  if (tied) modules.emplace_back("lm_head");
  return modules;
}

}  // namespace

std::uint64_t packed_weight_bytes(const PackedForm& form, std::uint64_t rows, std::uint64_t columns) {
  return bytes_of(packed_parts(form, "", rows, columns));
}

void write_directory(const gguf::File& model, const std::string& folder, const DirectoryForm& form) {
  const Hyperparameters numbers = read_hyperparameters(model);
  const Family& family = family_of(numbers.architecture, numbers.sliding_window != 0);
  const Shape shape = shape_of(model, numbers, family);
  const std::vector<PlacedTensor> tensors = placed_tensors(model, family, shape, form);
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_from_gguf(model);
  std::function<void(JsonWriter&)> quantisation;
  if (form.packed) quantisation = [&](JsonWriter& json) { write_quantisation(*form.packed, plain_modules(tensors, shape.tied), json); };
  PartialFolder partial(folder);
  partial.write("config.json", config_text(model, numbers, family, *tokenizer, form.dtype, quantisation));
  partial.write("tokenizer.json", tokenizer_text(model, *tokenizer));
  partial.write("generation_config.json", generation_config_text(model, *tokenizer));
  partial.write("tokenizer_config.json", tokenizer_config_text(model, *tokenizer, numbers.context));
  if (const auto text = only_template(model)) partial.write("chat_template.jinja", *text);
  if (const std::string card = model_card_text(model); !card.empty()) partial.write("README.md", card);
  write_tensors(partial, tensors, form);
  partial.commit();
}

}  // namespace quern::models
