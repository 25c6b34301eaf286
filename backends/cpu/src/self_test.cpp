// The probe's proof: a small matrix product through every instruction set, against integers known in advance; packed ones by AMX's tiles
// against those by AVX-512.
#include "backend.hpp"

#include "formats.hpp"
#include "packed/registry.hpp"
#include "view.hpp"

#include "quern/sdk/graph.hpp"

#include <array>
#include <cstring>

namespace quern::cpu {
namespace {

constexpr std::int64_t rows = 3, columns = 5, depth = 40;

quern_value make_value(std::uint32_t kind, std::int64_t d0, std::int64_t d1) {
  quern_value value{};
  value.header = {sizeof(value), QUERN_TYPE_VALUE, nullptr};
  value.kind = kind;
  value.dtype = QUERN_F32;
  value.rank = 2;
  value.alias_of = QUERN_NONE;
  value.dims[0] = d0;
  value.dims[1] = d1;
  return value;
}

/// Floats that start a cache line.
std::unique_ptr<float[]> reserve(std::int64_t count, float*& start) {
  auto memory = std::make_unique<float[]>(static_cast<std::size_t>(count) + 16);
  start = memory.get() + (64 - reinterpret_cast<std::uintptr_t>(memory.get()) % 64) % 64 / 4;
  return memory;
}

}  // namespace

std::string compare_tiles() {
  constexpr std::int64_t tokens = 34, k = 512, weight_rows = 16;
  std::vector<float> x(tokens * k);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7919 % 251) - 125);
  for (const PackedLayout& tiles : packed_set_avx512_amx().layouts) {
    const PackedLayout& vectors = *find_packed_layout(packed_set_avx512_vnni(), tiles.format, k, QUERN_CONVERT_INT8);
    const std::int64_t stride = k / unit_elements(tiles.format) * unit_bytes(tiles.format);
    std::vector<std::byte> weights(static_cast<std::size_t>(weight_rows * stride));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<std::byte>(i * 2654435761u >> 13 & 0x3f);  // as scales below 2
    float *panel = nullptr, *rounded = nullptr, *scratch = nullptr;
    const auto panel_memory = reserve(tiles.panel_bytes(k) / 4, panel),
               row_memory = reserve(tokens * activation_row_bytes(tiles.activations, k) / 4, rounded);
    const auto scratch_memory = reserve(tiles.scratch_floats(k), scratch);
    vectors.pack(weights.data(), stride, weight_rows, k, reinterpret_cast<std::byte*>(panel));
    packed_set_avx512_vnni().quantise(tiles.activations, x.data(), k, tokens, k, reinterpret_cast<std::byte*>(rounded));
    std::vector<float> y[2];
    for (const PackedLayout* layout : {&vectors, &tiles}) {
      std::vector<float>& to = y[layout == &tiles];
      to.assign(tokens * weight_rows, -1.0f);
      layout->multiply({reinterpret_cast<std::byte*>(panel), 1, weight_rows, k, reinterpret_cast<std::byte*>(rounded), tokens, to.data(),
                        weight_rows, scratch});
    }
    for (std::size_t i = 0; i < y[0].size(); ++i)
      if (std::memcmp(&y[0][i], &y[1][i], 4) != 0)
        return concat("amx gives ", y[1][i], " for element (", i / weight_rows, ", ", i % weight_rows, ") of a product of ",
                      sdk::dtype_name(tiles.format), " that avx512 gives ", y[0][i]);
  }
  return {};
}

std::string self_test(const Device& device) {
  const KernelPolicy& policy = device.policy;
  alignas(64) std::array<float, rows * depth> a;
  alignas(64) std::array<float, columns * depth> b;
  alignas(64) std::array<float, rows * columns> y;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 17) - 8);

  const quern_value values[] = {make_value(QUERN_VALUE_INPUT, rows, depth), make_value(QUERN_VALUE_CONSTANT, columns, depth),
                                make_value(QUERN_VALUE_OUTPUT, rows, columns)};
  const std::uint32_t inputs[] = {0, 1}, outputs[] = {2};
  quern_node node{};
  node.header = {sizeof(node), QUERN_TYPE_NODE, nullptr};
  node.op = QUERN_OP_MATMUL;
  node.op_revision = 1;
  node.inputs = {inputs, 2, sizeof(std::uint32_t)};
  node.outputs = {outputs, 1, sizeof(std::uint32_t)};
  quern_graph graph{};
  graph.header = {sizeof(graph), QUERN_TYPE_GRAPH, nullptr};
  graph.values = {values, 3, sizeof(quern_value)};
  graph.nodes = {&node, 1, sizeof(node)};

  if (policy.best >= Isa::amx)
    if (std::string fault = compare_tiles(); !fault.empty()) return fault;

  for (int level = 0; level <= static_cast<int>(policy.best); ++level) {
    KernelPolicy forced = policy;
    forced.force = isa_name(static_cast<Isa>(level));
    std::vector<std::uint32_t> refused;
    const Plan plan(&graph, forced, refused);
    Instance instance(plan, device);
    std::vector<std::byte> scratch(instance.scratch_bytes() + span_alignment);
    const auto address = [](const void* memory) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory)); };
    instance.prepare({{address(a.data()), address(b.data()), address(y.data())},
                      (address(scratch.data()) + span_alignment - 1) / span_alignment * span_alignment});
    quern_run run{};
    run.header = {sizeof(run), QUERN_TYPE_RUN, nullptr};
    instance.bounds().check_run(run);
    y.fill(-1.0f);
    instance.start(run);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        float expected = 0.0f;
        for (std::int64_t k = 0; k < depth; ++k) expected += a[i * depth + k] * b[j * depth + k];
        if (const float got = y[i * columns + j]; got != expected)
          return concat(plan.kernels[0]->name, " gives ", got, " for element (", i, ", ", j, ") of a product that is ", expected);
      }
  }
  return {};
}

}  // namespace quern::cpu
