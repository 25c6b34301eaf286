// Memory, extents and the order of nodes of the reference interpreter.
#include "reference_interpreter.hpp"

#include "quern/graph/op_info.hpp"

#include <numeric>
#include <stdexcept>

namespace quern::test {
namespace {

using graph::ValueId;

std::int64_t product(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t Cells::count() const { return product(dims); }

std::int64_t Cells::rows() const { return std::accumulate(dims.begin(), dims.end() - 1, std::int64_t{1}, std::multiplies<>()); }

double& Cells::at(std::initializer_list<std::int64_t> index) const {
  std::int64_t offset = 0;
  std::size_t d = 0;
  for (const std::int64_t i : index) {
    if (i < 0 || i >= dims.at(d)) throw std::out_of_range("reference interpreter: index outside a value");
    offset += i * strides[d++];
  }
  return data[offset];
}

double& Cells::flat(std::int64_t i) const {
  if (i < 0 || i >= count()) throw std::out_of_range("reference interpreter: element outside a value");
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d-- > 0; i /= dims[d]) offset += i % dims[d] * strides[d];
  return data[offset];
}

std::int64_t ReferenceCall::integer(std::uint32_t key) const { return graph::integer_attribute(node, key); }
double ReferenceCall::number(std::uint32_t key) const { return graph::number_attribute(node, key); }

ReferenceInterpreter::ReferenceInterpreter(const graph::Graph& graph) : graph_(graph), memory_(graph.values().size()) {
  for (graph::SymbolId s = 1; s <= graph.symbols().size(); ++s) extents_[s] = graph.symbols()[s - 1].max;
  for (ValueId id = 0; id < graph.values().size(); ++id) {
    if (graph.root(id) != id) continue;
    std::int64_t count = 1;
    for (const graph::Dim& dim : graph.value(id).shape) count *= dim.size;
    memory_[id].assign(static_cast<std::size_t>(count), 0.0);
  }
}

void ReferenceInterpreter::extent(graph::SymbolId symbol, std::int64_t size) { extents_.at(symbol) = size; }

Cells ReferenceInterpreter::cells(ValueId id) {
  if (id == graph::no_value) return {};
  const graph::Value& value = graph_.value(id);
  const graph::BlockSize block = graph::block_size(value.dtype);
  Cells cells;
  for (const graph::Dim& dim : value.shape) cells.dims.push_back(dim.symbol ? extents_.at(dim.symbol) : dim.size);
  // Bytes of whole blocks become elements; the last stride of a block format is that of a block.
  for (const std::int64_t stride : graph_.strides(id)) cells.strides.push_back(stride / block.bytes * block.elements);
  if (block.elements != 1) cells.strides.back() = 1;
  const auto first = static_cast<std::int64_t>(value.alias_offset) / block.bytes * block.elements;
  cells.data = memory_[graph_.root(id)].data() + first;
  return cells;
}

void ReferenceInterpreter::set(ValueId value, const std::vector<double>& elements) {
  const Cells to = cells(value);
  if (static_cast<std::int64_t>(elements.size()) != to.count())
    throw std::invalid_argument("reference interpreter: '" + graph_.value(value).name + "' has " + std::to_string(to.count()) +
                                " elements and is set to " + std::to_string(elements.size()));
  for (std::size_t i = 0; i < elements.size(); ++i) to.flat(static_cast<std::int64_t>(i)) = elements[i];
}

void ReferenceInterpreter::set(ValueId value, const std::vector<float>& elements) {
  set(value, std::vector<double>(elements.begin(), elements.end()));
}

void ReferenceInterpreter::set(ValueId value, const std::vector<std::int32_t>& elements) {
  set(value, std::vector<double>(elements.begin(), elements.end()));
}

std::vector<double> ReferenceInterpreter::get(ValueId value) {
  const Cells from = cells(value);
  std::vector<double> elements(static_cast<std::size_t>(from.count()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = from.flat(static_cast<std::int64_t>(i));
  return elements;
}

void ReferenceInterpreter::run() {
  index_fault_ = false;
  for (const graph::Node& node : graph_.nodes()) {
    const ReferenceOp op = find_reference_op(node.op);
    if (!op) throw std::invalid_argument("reference interpreter: has no " + graph::op_name(node.op));
    ReferenceCall call{*this, node, {}, {}};
    for (const ValueId id : node.inputs) call.in.push_back(cells(id));
    for (const ValueId id : node.outputs) call.out.push_back(cells(id));
    op(call);
  }
}

ReferenceOp find_reference_op(std::uint32_t op) {
  switch (op) {
    case QUERN_OP_ADD: return reference_add;
    case QUERN_OP_SUB: return reference_sub;
    case QUERN_OP_MUL: return reference_mul;
    case QUERN_OP_DIV: return reference_div;
    case QUERN_OP_SCALE: return reference_scale;
    case QUERN_OP_COPY: return reference_copy;
    case QUERN_OP_GET_ROWS: return reference_get_rows;
    case QUERN_OP_TAKE: return reference_take;
    case QUERN_OP_RMS_NORM: return reference_rms_norm;
    case QUERN_OP_ADD_RMS_NORM: return reference_add_rms_norm;
    case QUERN_OP_MATMUL: return reference_matmul;
    case QUERN_OP_SILU: return reference_silu;
    case QUERN_OP_GLU: return reference_glu;
    case QUERN_OP_SOFTMAX: return reference_softmax;
    case QUERN_OP_ROPE_TABLE: return reference_rope_table;
    case QUERN_OP_ROPE: return reference_rope;
    case QUERN_OP_KV_WRITE: return reference_kv_write;
    case QUERN_OP_ATTENTION: return reference_attention;
    case QUERN_OP_ARGMAX: return reference_argmax;
    case QUERN_OP_PENALIZE: return reference_penalize;
    case QUERN_OP_LOGIT_BIAS: return reference_logit_bias;
    case QUERN_OP_SAMPLE: return reference_sample;
    default: break;
  }
  const ReferenceOp training = find_training_op(op);
  return training ? training : find_gradient_op(op);
}

}  // namespace quern::test
