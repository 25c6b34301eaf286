// See work.hpp.
#include "bench/work.hpp"

#include <algorithm>
#include <vector>

namespace quern::conformance {
namespace {

double bytes_of(const ValueSpec& v) { return v.absent() ? 0.0 : static_cast<double>(packed_bytes(v.dtype, v.dims)); }

std::int64_t from_end(const Dims& dims, std::size_t d) { return d < dims.size() ? dims[dims.size() - 1 - d] : 1; }

double all_values(const Case& c) {
  double bytes = 0;
  for (const ValueSpec& v : c.inputs) bytes += bytes_of(v);
  for (const ValueSpec& v : c.outputs) bytes += bytes_of(v) * (v.kind == QUERN_VALUE_STATE && v.in_place_of < 0 ? 2 : 1);
  return bytes;
}

double row_bytes(const ValueSpec& table) {
  return bytes_of(table) / static_cast<double>(std::max<std::int64_t>(1, from_end(table.dims, 1)));
}

/// How often each expert of a matmul_id is chosen. Empty where the case does not give its ids.
std::vector<double> choices(const Case& c) {
  const ValueSpec& id = c.inputs[2];
  if (!id.fill) return {};
  const Tensor ids(id.dtype, id.dims);
  id.fill(ids, CounterRandom::of(c.name));
  std::vector<double> count(static_cast<std::size_t>(c.inputs[1].dims[0]));
  for (const double expert : ids.values())
    if (expert >= 0 && expert < static_cast<double>(count.size())) ++count[static_cast<std::size_t>(expert)];
  return count;
}

double chosen_bytes(const Case& c) {
  const std::vector<double> count = choices(c);
  if (count.empty()) return 0;
  const auto chosen = static_cast<double>(std::ranges::count_if(count, [](double times) { return times > 0; }));
  return bytes_of(c.inputs[0]) + bytes_of(c.inputs[1]) / static_cast<double>(count.size()) * chosen + bytes_of(c.inputs[2]) +
         bytes_of(c.outputs[0]);
}

double bytes_moved(const Case& c) {
  switch (c.op) {
    case QUERN_OP_GET_ROWS: {  // the rows that are asked for, not the table
      const double rows = static_cast<double>(element_count(c.inputs[1].dims));
      return rows * row_bytes(c.inputs[0]) + bytes_of(c.inputs[1]) + bytes_of(c.outputs[0]);
    }
    case QUERN_OP_SET_ROWS:
    case QUERN_OP_INDEX_ADD: {
      const double rows = static_cast<double>(element_count(c.inputs[1].dims)), times = c.op == QUERN_OP_SET_ROWS ? 1 : 2;
      return bytes_of(c.inputs[0]) + bytes_of(c.inputs[1]) + times * rows * row_bytes(c.outputs[0]);
    }
    case QUERN_OP_KV_WRITE:
    case QUERN_OP_KV_COPY:
    case QUERN_OP_KV_MOVE:
    case QUERN_OP_ATTENTION:
    case QUERN_OP_MATMUL_ID_BACKWARD:
    case QUERN_OP_LORA_MATMUL:
    case QUERN_OP_LORA_MATMUL_BACKWARD: return 0;
    case QUERN_OP_MATMUL_ID: return chosen_bytes(c);
    default: return all_values(c);
  }
}

double operations(const Case& c) {
  if (c.op == QUERN_OP_MATMUL) {
    const std::size_t k_at = c.attribute(QUERN_KEY_TRANSPOSE_A, 0) != 0 ? 1 : 0;
    return 2.0 * static_cast<double>(element_count(c.outputs[0].dims)) * static_cast<double>(from_end(c.inputs[0].dims, k_at));
  }
  if (c.op == QUERN_OP_MATMUL_ID) {
    double products = 0;
    for (const double times : choices(c)) products += times;
    return 2.0 * products * static_cast<double>(from_end(c.inputs[1].dims, 0) * from_end(c.inputs[1].dims, 1));
  }
  if (c.op == QUERN_OP_ATTENTION_DENSE) {  // q [b,t,heads,d], k [b,u,kv,d]: scores and values; half of them where causal
    const double rows = static_cast<double>(element_count(c.inputs[0].dims)), keys = static_cast<double>(from_end(c.inputs[1].dims, 2));
    const double value_rows = static_cast<double>(element_count(c.outputs[0].dims));
    return 2.0 * (rows + value_rows) * keys * (c.attribute(QUERN_KEY_CAUSAL, 1) != 0 ? 0.5 : 1.0);
  }
  return 0;
}

}  // namespace

Work work_of(const Case& c) {
  if (c.script || c.graph) return {};
  return {bytes_moved(c), operations(c)};
}

}  // namespace quern::conformance
