// See node_reference.hpp.
#include "graphs/reference/node_reference.hpp"

#include "case_table/case_table.hpp"

#include <cmath>
#include <stdexcept>

namespace quern::conformance {

void Operand::read(std::int64_t first, std::int64_t n, double* out) const {
  if (exact()) tensor->read(first, n, out);
  else std::copy_n(value.begin() + first, n, out);
}

void Operand::read_deviation(std::int64_t first, std::int64_t n, double* out) const {
  if (exact() || deviation.empty()) std::fill_n(out, n, 0.0);
  else std::copy_n(deviation.begin() + first, n, out);
}

std::vector<double> Operand::values() const {
  std::vector<double> all(static_cast<std::size_t>(count()));
  read(0, count(), all.data());
  return all;
}

std::vector<double> Operand::deviations() const {
  std::vector<double> all(static_cast<std::size_t>(count()));
  read_deviation(0, count(), all.data());
  return all;
}

double NodeCall::attribute(std::uint32_t key, double fallback) const {
  for (const Attribute& a : node.attributes)
    if (a.key == key) return a.value;
  return fallback;
}

Operand unobserved(const Result& result, quern_dtype dtype, Dims dims) {
  if (result.check || !result.index.empty()) throw std::logic_error("a whole graph reads a value that it neither shows nor bounds");
  Operand x;
  x.dims = std::move(dims);
  x.value = result.value;
  for (std::size_t i = 0; i < result.value.size(); ++i) {
    const double store = store_bound(dtype, result.value[i]);
    const double s = std::sqrt(result.deviation[i] * result.deviation[i] + (result.bound[i] * result.bound[i] + store * store) / 3.0);
    x.deviation.push_back(std::isfinite(result.value[i]) ? s : 0.0);
  }
  return x;
}

std::vector<Result> node_reference(const NodeCall& call) {
  std::vector<Result> y(call.node.outputs.size());
  switch (call.node.op) {
    case QUERN_OP_MATMUL: matmul_node(call, y[0]); break;
    case QUERN_OP_RMS_NORM: rms_norm_node(call, y[0]); break;
    case QUERN_OP_ADD_RMS_NORM: add_rms_norm_node(call, y[0], y[1]); break;
    case QUERN_OP_GET_ROWS: get_rows_node(call, y[0]); break;
    case QUERN_OP_TAKE: take_node(call, y[0]); break;
    case QUERN_OP_ROPE: rope_node(call, y[0]); break;
    case QUERN_OP_LAYER_NORM: layer_norm_node(call, y[0]); break;
    case QUERN_OP_MOE_ROUTER: moe_router_node(call, y[0], y[1]); break;
    case QUERN_OP_MATMUL_ID: matmul_id_node(call, y[0]); break;
    case QUERN_OP_MOE_COMBINE: moe_combine_node(call, y[0]); break;
    case QUERN_OP_LORA_MATMUL: lora_matmul_node(call, y[0]); break;
    case QUERN_OP_ADD:
    case QUERN_OP_SUB:
    case QUERN_OP_MUL:
    case QUERN_OP_SCALE:
    case QUERN_OP_SILU:
    case QUERN_OP_GELU:
    case QUERN_OP_TANH:
    case QUERN_OP_SIGMOID:
    case QUERN_OP_GLU: elementwise_node(call, y[0]); break;
    case QUERN_OP_KV_WRITE: kv_write_node(call, y[0]); break;
    case QUERN_OP_ATTENTION: attention_node(call, y[0]); break;
    case QUERN_OP_PENALIZE:
    case QUERN_OP_LOGIT_BIAS:
    case QUERN_OP_TOP_K_MASK:
    case QUERN_OP_TOP_P_MASK:
    case QUERN_OP_MIN_P_MASK: logits_node(call, y[0]); break;
    case QUERN_OP_ARGMAX: argmax_node(call, y[0]); break;
    case QUERN_OP_SAMPLE: sample_node(call, y[0], y[1]); break;
    default: throw std::logic_error("graphs/reference/ has no " + op_name(call.node.op));
  }
  return y;
}

}  // namespace quern::conformance
