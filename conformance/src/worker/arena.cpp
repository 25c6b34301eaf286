// See arena.hpp.
#include "worker/arena.hpp"

namespace quern::conformance {
namespace {

constexpr std::uint64_t step = 64;

std::uint64_t padded(const ValueSpec& v) { return v.absent() ? 0 : (packed_bytes(v.dtype, v.dims) + step - 1) / step * step; }
bool has_state(const ValueSpec& v) { return !v.absent() && v.kind == QUERN_VALUE_STATE && v.in_place_of < 0; }

Tensor take(const ValueSpec& v, std::span<std::byte>& rest) {
  Tensor tensor(v.dtype, v.dims, rest.first(packed_bytes(v.dtype, v.dims)));
  rest = rest.subspan(padded(v));
  return tensor;
}

void fill_value(const ValueSpec& spec, const Tensor& tensor, const CounterRandom& random) {
  if (spec.fill) spec.fill(tensor, random);
  else fill(tensor, spec.data, random);
  if (spec.layout.repeated == 0) return;
  const Placement placement(spec.dtype, spec.dims, spec.layout);  // elements that share memory share their value
  std::vector<std::byte> memory(placement.bytes());
  placement.scatter(tensor.bytes(), memory);
  placement.gather(memory, tensor.bytes());
}

}  // namespace

std::uint64_t input_bytes(const Case& c) {
  std::uint64_t bytes = 0;
  for (const ValueSpec& v : c.inputs) bytes += padded(v);
  for (const ValueSpec& v : c.outputs) bytes += has_state(v) ? padded(v) : 0;
  return bytes;
}

std::uint64_t output_bytes(const Case& c) {
  std::uint64_t bytes = 0;
  for (const ValueSpec& v : c.outputs) bytes += padded(v);
  return bytes;
}

CaseData map_data(const Case& c, std::span<std::byte> arena) {
  CaseData data;
  for (const ValueSpec& v : c.inputs) data.inputs.push_back(v.absent() ? Tensor() : take(v, arena));
  for (const ValueSpec& v : c.outputs) data.states.push_back(has_state(v) ? take(v, arena) : Tensor());
  return data;
}

std::string seeded_name(const Case& c, std::uint64_t seed) { return seed == 0 ? c.name : c.name + "#" + std::to_string(seed); }

void fill_data(const Case& c, const CaseData& data, std::uint64_t seed, bool constants) {
  const CounterRandom random = CounterRandom::of(seeded_name(c, seed));
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (!data.inputs[i].absent() && (constants || c.derive != nullptr || c.inputs[i].kind != QUERN_VALUE_CONSTANT))
      fill_value(c.inputs[i], data.inputs[i], random.stream(i));
  for (std::size_t o = 0; o < c.outputs.size(); ++o)
    if (!data.states[o].absent()) fill_value(c.outputs[o], data.states[o], random.stream(64 + o));
  if (c.derive != nullptr) c.derive({c, data.inputs, data.states});
}

std::vector<Tensor> map_outputs(const Case& c, std::span<std::byte> arena) {
  std::vector<Tensor> outputs;
  for (const ValueSpec& v : c.outputs) outputs.push_back(v.absent() ? Tensor() : take(v, arena));
  return outputs;
}

}  // namespace quern::conformance
