// See weights.hpp.
#include "weights.hpp"

#include <map>
#include <tuple>

namespace quern::cuda {
namespace {

/// Which values of a graph may be packed: read as weights or as a table of rows by nodes that run here, and in no other way.
std::vector<bool> packable(const Graph& graph) {
  std::vector<bool> yes(graph.values.size(), false), other(graph.values.size(), false);
  for (const Value& value : graph.values)
    if (&graph.values[value.root] != &value) other[value.root] = true;
  for (const Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == QUERN_NONE) continue;
      const bool weights = node.refusal.empty() && ((node.op == QUERN_OP_MATMUL && i == 1) || (node.op == QUERN_OP_GET_ROWS && i == 0));
      (weights ? yes : other)[node.inputs[i]] = true;
    }
  for (std::size_t v = 0; v < yes.size(); ++v) {
    const Value& value = graph.values[v];
    const Tensor& t = value.tensor;
    yes[v] = yes[v] && !other[v] && graph.source.values[v].kind == QUERN_VALUE_CONSTANT && value.root == v &&
             value.refusal.empty() && t.rank == 2 && t.ranged == 0 && !t.planes && t.dims[0] > 0 &&
             t.dims[1] > 0 && wants_planes(t.dtype) && t.contiguous();
  }
  return yes;
}

const quern_buffer& buffer_of(const quern_span& span, const char* what) {
  if (span.buffer == nullptr) refuse(concat("weights_pack: ", what, " is in no buffer"), 16);
  const quern_buffer& buffer = *span.buffer;
  if (span.offset > buffer.bytes || span.bytes > buffer.bytes - span.offset)
    refuse(concat("weights_pack: ", what, " is beyond its buffer"), 16);
  return buffer;
}

}  // namespace

std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<Graph>>& graphs) {
  using Identity = std::tuple<std::string, quern_dtype, std::int64_t, std::int64_t, std::size_t>;
  struct Candidate {
    std::vector<quern_weight_source> sources;
    bool wanted = true;
  };
  std::map<Identity, Candidate> candidates;
  std::size_t nameless = 0;
  for (std::uint32_t g = 0; g < graphs.size(); ++g) {
    const std::vector<bool> yes = packable(*graphs[g]);
    for (std::uint32_t v = 0; v < yes.size(); ++v) {
      const Tensor& t = graphs[g]->values[v].tensor;
      if (graphs[g]->source.values[v].kind != QUERN_VALUE_CONSTANT || t.rank != 2 || !wants_planes(t.dtype)) continue;
      const std::string name = t.name;
      Candidate& candidate = candidates[{name, t.dtype, t.dims[0], t.dims[1], name.empty() ? ++nameless : 0}];
      candidate.sources.push_back({g, v});
      candidate.wanted = candidate.wanted && yes[v];
    }
  }
  auto list = std::make_unique<WeightList>();
  for (auto& [identity, candidate] : candidates) {
    if (!candidate.wanted) continue;
    const WeightLayout layout{std::get<1>(identity), std::get<2>(identity), std::get<3>(identity), true};
    quern_weight_item item = sdk::made<quern_weight_item>();
    item.layout_key = sdk::text_of(list->keys.emplace_back(layout_key(layout)));
    const auto& sources = list->sources.emplace_back(std::move(candidate.sources));
    item.sources = {sources.data(), sources.size(), sizeof(quern_weight_source)};
    item.bytes = layout_bytes(layout);
    item.alignment = 256;
    item.benefit = static_cast<double>(item.bytes) * 2e-13;  // 2-byte loads reach about half of the memory's rate
    list->items.push_back(item);
  }
  return list;
}

void pack_weight(std::string_view key, const quern_array& sources, const quern_array& destination, Gpu& gpu) {
  const WeightLayout layout = parse_layout(key);
  if (layout.dtype == QUERN_DTYPE_NONE) unsupported(concat("'", std::string(key), "' is no layout of this plugin"));
  const sdk::List<quern_span> from_list(sources, "sources"), to_list(destination, "destination");
  if (from_list.size() != 1 || to_list.size() != 1) unsupported("a packed weight has one source and one destination span");
  const quern_span from = from_list[0], to = to_list[0];
  const Pieces pieces = pieces_of(layout.dtype);
  const std::int64_t blocks = layout.rows * (layout.k / pieces.elements);
  const auto needed = static_cast<std::uint64_t>(blocks * pieces.block_bytes);
  const quern_buffer &source = buffer_of(from, "the source"), &target = buffer_of(to, "the destination");
  if (from.bytes < needed || to.bytes < layout_bytes(layout))
    refuse(concat("'", std::string(key), "' takes ", needed, " bytes and makes ", layout_bytes(layout),
                  ", not ", from.bytes, " and ", to.bytes),
           16);
  if ((target.memory + to.offset) % 256 != 0) refuse("the destination of a packed weight does not start at a multiple of 256", 16);
  Tensor packed;
  packed.data = target.memory + to.offset;
  packed.dtype = layout.dtype;
  packed.rank = 2;
  packed.dims[0] = layout.rows;
  packed.dims[1] = layout.k;
  packed.planes = true;
  const Blocks planes = blocks_of(packed);
  RepackParams p{};
  p.from = source.memory + from.offset;
  p.block_bytes = pieces.block_bytes;
  for (int i = 0; i < 4; ++i) {
    p.to[i] = planes.plane[i];
    p.offset[i] = pieces.offset[i];
    p.bytes[i] = pieces.bytes[i];
  }
  p.blocks = blocks;
  gpu.shadows().forget(packed.data, layout_bytes(layout));
  // Planes start at multiples of 256 bytes: what lies between them is part of the packed bytes, the same each time.
  for (int i = 0; i < 4; ++i) {
    const Address end = planes.plane[i] + static_cast<Address>(blocks * pieces.bytes[i]);
    const Address next = i + 1 < 4 ? planes.plane[i + 1] : packed.data + layout_bytes(layout);
    if (next > end) gpu.driver().check(gpu.driver().cuMemsetD8Async(end, 0, next - end, gpu.stream()), "packing a weight");
  }
  Launcher launcher(gpu, false);
  // Not waited for: what reads the planes, or writes or gives back the source, comes behind it on the stream, as behind an upload.
  launcher.launch("weights", "repack", launcher.spread(blocks * pieces.block_bytes / 2), 256, p);
}

}  // namespace quern::cuda
