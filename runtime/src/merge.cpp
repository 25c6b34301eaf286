// See merge.hpp.
#include "merge.hpp"

#include "program.hpp"

#include "quern/graph/ops.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/gguf_writer.hpp"

#include <map>
#include <optional>
#include <set>

namespace quern::runtime {
namespace {

namespace ops = graph::ops;
using graph::ValueId;

/// What an adapter adds to one tensor.
struct Change {
  const peft::AdapterMatrix* matrix;
  std::vector<float> b;  // rows in the order of the base's file
  double scale;
};

std::map<std::string, std::vector<Change>> changes_of(const std::vector<std::pair<peft::Adapter, double>>& adapters,
                                                      const peft::BaseShape& base) {
  std::map<std::string, std::vector<Change>> changes;
  for (const auto& [adapter, factor] : adapters) {
    for (const peft::AdapterMatrix& matrix : adapter.matrices) {
      Change change{&matrix, in_file_order(base, matrix.target, matrix.b, matrix.rank, true), factor * adapter.scale(matrix)};
      changes[concat("blk.", matrix.layer, ".", peft::gguf_name(matrix.target), ".weight")].push_back(std::move(change));
    }
  }
  return changes;
}

/// The tensor with its changes, encoded as `to`, by one program over the whole of it.
std::vector<std::byte> changed(const std::vector<std::shared_ptr<MemoryBudget>>& devices, const gguf::File& file,
                               const gguf::TensorInfo& tensor, const std::vector<Change>& changes, quern_dtype to) {
  graph::Graph graph("merge");
  const auto columns = static_cast<std::int64_t>(tensor.dims[0]), rows = static_cast<std::int64_t>(tensor.elements() / tensor.dims[0]);
  const ValueId from = graph.input("base", tensor.dtype, {rows, columns});
  ValueId x = tensor.dtype == QUERN_F32 ? from : ops::cast(graph, from, QUERN_F32, {.name = "decode"});
  std::vector<std::pair<ValueId, std::span<const float>>> inputs;
  for (const Change& change : changes) {
    const ValueId a = graph.input("a", QUERN_F32, {change.matrix->rank, columns}),
                  b = graph.input("b", QUERN_F32, {rows, change.matrix->rank});
    inputs.emplace_back(a, change.matrix->a);
    inputs.emplace_back(b, change.b);
    x = ops::lora_merge(graph, x, a, b, change.scale, {.name = "merge"});
  }
  if (to != QUERN_F32) x = ops::cast(graph, x, to, {.name = "encode"});
  if (x == from) x = ops::copy(graph, x, {.name = "copy"});
  graph.mark_output(x, "merged");
  Program program(std::move(graph), devices, Fallback::automatic, "");
  program.prepare();
  const gguf::TensorBytes base = file.read(tensor);
  program.write(from, 0, base.bytes());
  for (const auto& [value, numbers] : inputs) program.write(value, 0, std::as_bytes(numbers));
  program.run({});
  const graph::Value& value = program.graph().value(x);
  std::vector<std::byte> bytes(graph::byte_size(value.dtype, value.shape));
  program.read(x, 0, bytes);
  return bytes;
}

}  // namespace

void merge(Runtime& runtime, const std::string& base_path, const std::vector<std::pair<std::string, double>>& adapters,
           const MergeOptions& options, const std::string& out) {
  if (adapters.empty()) throw Error(QUERN_INVALID_ARGUMENT, "no adapter was given to merge");
  const gguf::File file = models::open_model(base_path);
  const peft::BaseShape base = peft::base_shape(file);
  std::vector<std::pair<peft::Adapter, double>> read;
  for (const auto& [path, factor] : adapters) read.emplace_back(read_adapter(path, base), factor);
  const std::map<std::string, std::vector<Change>> changes = changes_of(read, base);
  const auto type_of = [&](const gguf::TensorInfo& tensor) {
    if (tensor.n_dims < 2 || options.keep) return tensor.dtype;
    if (options.type != QUERN_DTYPE_NONE) return options.type;
    return changes.contains(std::string(tensor.name)) ? quern_dtype{QUERN_F16} : tensor.dtype;
  };
  gguf::Writer writer;
  writer.copy_keys(file);
  if (const auto name = file.find_string("general.name")) writer.string("general.name", concat(*name, " merged"));
  for (const gguf::TensorInfo& tensor : file.tensors())
    writer.tensor(std::string(tensor.name), {tensor.dims, tensor.dims + tensor.n_dims}, type_of(tensor));
  writer.begin(out);
  const std::vector<std::shared_ptr<MemoryBudget>> devices = runtime.devices();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const auto found = changes.find(std::string(tensor.name));
    const quern_dtype type = type_of(tensor);
    if (const gguf::TensorBytes kept = file.read(tensor); found == changes.end() && type == tensor.dtype) writer.append(kept.bytes());
    else writer.append(changed(devices, file, tensor, found == changes.end() ? std::vector<Change>() : found->second, type));
    file.drop_pages(tensor);
  }
  writer.commit();
}

void export_adapter(const std::string& adapter, const std::string& base_path, AdapterFormat format, quern_dtype dtype,
                    const std::string& out) {
  const peft::BaseShape base = peft::base_shape(models::open_model(base_path));
  const peft::Adapter read = read_adapter(adapter, base);
  if (format == AdapterFormat::peft) peft::write_folder(read, out, dtype);
  else peft::write_gguf(read, base, out, dtype);
}

}  // namespace quern::runtime
