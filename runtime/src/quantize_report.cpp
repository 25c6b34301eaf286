#include "quantize_report.hpp"

#include "quern/graph/graph.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/models/encoding.hpp"

namespace quern::runtime {

std::string quantize_report(std::string_view type, const std::vector<QuantizedTensor>& tensors) {
  JsonWriter json(JsonWriter::Style::one_line);
  std::uint64_t before = 0, bytes = 0, elements = 0;
  json.begin_object();
  json.member("type", type);
  json.key("tensors");
  json.begin_array();
  for (const QuantizedTensor& one : tensors) {
    const gguf::TensorInfo& tensor = *one.tensor;
    json.begin_object();
    json.member("name", tensor.name);
    json.member("shape", std::span(tensor.dims, tensor.n_dims));
    json.member("from", graph::dtype_name(tensor.dtype));
    json.member("to", graph::dtype_name(one.dtype));
    json.member("bytes", one.bytes);
    if (one.wanted != one.dtype) json.member("instead_of", graph::dtype_name(one.wanted));
    json.end_object();
    before += tensor.bytes;
    bytes += one.bytes;
    elements += tensor.elements();
  }
  json.end_array();
  json.member("bytes_before", before);
  json.member("bytes", bytes);
  json.member("bits_per_weight", elements == 0 ? 0.0 : 8 * static_cast<double>(bytes) / static_cast<double>(elements));
  json.end_object();
  return json.take();
}

void refuse_blocks(const gguf::File& file, const std::vector<QuantizedTensor>& tensors) {
  for (const QuantizedTensor& one : tensors) {
    if (!one.changes || quantize::block_elements(one.tensor->dtype) == 1) continue;
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(file.name(), ": tensor '", one.tensor->name, "' is ", gguf::type_name(one.tensor->dtype),
                       " already, and what that lost stays lost; start from the f16, bf16 or f32 model, or allow re-quantising"));
  }
}

}  // namespace quern::runtime
