// See weights.hpp.
#include "weights.hpp"

#include "run_once.hpp"

#include <charconv>
#include <map>
#include <tuple>

namespace quern::vulkan {
namespace {

constexpr std::uint64_t plane_alignment = 256;
constexpr std::string_view prefix = "vulkan.planes.";

/// The fields of a block, in the order of their planes.
struct Fields {
  std::uint32_t block_bytes = 0, elements = 0;
  std::uint32_t offset[4] = {}, bytes[4] = {};
};
Fields fields_of(quern_dtype dtype) {
  switch (dtype) {
    case QUERN_Q4_0: return {18, 32, {0, 2}, {2, 16}};
    case QUERN_Q4_1: return {20, 32, {0, 4}, {4, 16}};
    case QUERN_Q5_0: return {22, 32, {0, 6, 2}, {2, 16, 4}};
    case QUERN_Q5_1: return {24, 32, {0, 8, 4}, {4, 16, 4}};
    case QUERN_Q8_0: return {34, 32, {0, 2}, {2, 32}};
    case QUERN_Q6_K: return {210, 256, {208, 0, 128, 192}, {2, 128, 64, 16}};
    default: return {};
  }
}

struct Layout {
  quern_dtype dtype = QUERN_DTYPE_NONE;
  std::int64_t rows = 0, k = 0;

  std::uint64_t blocks() const { return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(k / fields_of(dtype).elements); }
  /// Where a plane begins; plane 4 is the end.
  std::uint64_t plane(int index) const {
    const Fields fields = fields_of(dtype);
    std::uint64_t at = 0;
    for (int f = 0; f < index; ++f) at += (blocks() * fields.bytes[f] + plane_alignment - 1) / plane_alignment * plane_alignment;
    return at;
  }
  std::string key() const {
    std::string name;
    for (const quern_format& format : quern_formats)
      if (format.id == dtype) name = std::string(sdk::view(format.name));
    return concat(std::string(prefix), name, ".", rows, "x", k);
  }
};

Layout parse(std::string_view key) {
  if (key.substr(0, prefix.size()) != prefix) return {};
  key.remove_prefix(prefix.size());
  const std::size_t dot = key.find('.'), cross = key.find('x', dot == std::string_view::npos ? 0 : dot);
  if (dot == std::string_view::npos || cross == std::string_view::npos) return {};
  Layout layout;
  const auto number = [](std::string_view text, std::int64_t& to) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), to);
    return result.ec == std::errc() && result.ptr == text.data() + text.size() && to > 0 && to < std::int64_t{1} << 31;
  };
  if (!number(key.substr(dot + 1, cross - dot - 1), layout.rows) || !number(key.substr(cross + 1), layout.k)) return {};
  for (const quern_format& format : quern_formats)
    if (sdk::view(format.name) == key.substr(0, dot) && wants_planes(format.id)) layout.dtype = format.id;
  return layout;
}

/// The packing kernel counts units of two bytes with 32 bits.
bool is_countable(const Layout& layout) { return layout.blocks() * fields_of(layout.dtype).block_bytes / 2 < std::uint64_t{1} << 31; }

/// Which values of a graph may be packed.
std::vector<bool> packable(const sdk::ResolvedGraph& graph) {
  std::vector<bool> product(graph.values.size(), false), other(graph.values.size(), false);
  for (std::uint32_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].root != v) other[graph.values[v].root] = true;
  for (const sdk::ResolvedNode& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::uint32_t v = node.inputs[i];
      if (v == QUERN_NONE) continue;
      if (node.refusal.empty() && node.op == QUERN_OP_MATMUL && i == 1 && (node.conversions & QUERN_CONVERT_INT8) != 0) product[v] = true;
      else if (!node.refusal.empty() || node.op != QUERN_OP_GET_ROWS || i != 0) other[v] = true;
    }
  for (std::uint32_t v = 0; v < product.size(); ++v) {
    const Tensor& t = graph.values[v].tensor;
    product[v] = product[v] && !other[v] && graph.source.values[v].kind == QUERN_VALUE_CONSTANT && graph.values[v].refusal.empty() && t.rank == 2 &&
                 t.ranged == 0 && !t.packed_layout && t.dims[0] > 0 && t.dims[1] > 0 && wants_planes(t.dtype) && is_contiguous(t) &&
                 is_countable({t.dtype, t.dims[0], t.dims[1]});
  }
  return product;
}

}  // namespace

bool wants_planes(quern_dtype dtype) noexcept { return fields_of(dtype).block_bytes != 0; }

std::array<std::uint64_t, 4> plane_offsets(quern_dtype dtype, std::int64_t rows, std::int64_t k) {
  if (!wants_planes(dtype)) return {};
  const Layout layout{dtype, rows, k};
  return {layout.plane(0), layout.plane(1), layout.plane(2), layout.plane(3)};
}

std::uint64_t packed_bytes(std::string_view key, quern_dtype dtype, std::int64_t rows, std::int64_t k) {
  const Layout layout = parse(key);
  const bool fits = layout.dtype != QUERN_DTYPE_NONE && layout.dtype == dtype && layout.rows == rows && layout.k == k;
  return fits ? layout.plane(4) : 0;
}

std::unique_ptr<WeightList> plan_weights(const std::vector<std::unique_ptr<sdk::ResolvedGraph>>& graphs) {
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
    const Layout layout{std::get<1>(identity), std::get<2>(identity), std::get<3>(identity)};
    quern_weight_item item = sdk::made<quern_weight_item>();
    item.layout_key = sdk::text_of(list->keys.emplace_back(layout.key()));
    const auto& sources = list->sources.emplace_back(std::move(candidate.sources));
    item.sources = {sources.data(), sources.size(), sizeof(quern_weight_source)};
    item.bytes = layout.plane(4);
    item.alignment = plane_alignment;
    item.benefit = static_cast<double>(item.bytes) * 2e-13;  // loads of 2 bytes reach about half of a GPU's 3 TB/s
    list->items.push_back(item);
  }
  return list;
}

void pack_weight(std::string_view key, std::uint64_t from, std::uint64_t from_bytes, Memory& target, std::uint64_t offset, std::uint64_t to_bytes, Gpu& gpu) {
  const std::uint64_t to = target.address() + offset;
  const Layout layout = parse(key);
  if (layout.dtype == QUERN_DTYPE_NONE || !is_countable(layout))
    throw Failure(QUERN_UNSUPPORTED, concat("'", std::string(key), "' is no layout of this plugin"));
  const Fields fields = fields_of(layout.dtype);
  const std::uint64_t needed = layout.blocks() * fields.block_bytes;
  if (from_bytes < needed || to_bytes < layout.plane(4))
    refuse(concat("'", std::string(key), "' takes ", needed, " bytes and makes ", layout.plane(4), ", not ", from_bytes, " and ", to_bytes), 16);
  if (to % plane_alignment != 0) refuse("the destination of a packed weight does not start at a multiple of 256", 16);
  gpu.fill(target, offset, 0, layout.plane(4));  // what lies between planes too
  RepackParams p{};
  p.from = from;
  for (int f = 0; f < 4; ++f) {
    p.to[f] = to + layout.plane(f);
    p.offset[f] = fields.offset[f];
    p.bytes[f] = fields.bytes[f];
  }
  p.blocks = static_cast<uint>(layout.blocks());
  p.block_bytes = fields.block_bytes;
  run_once(gpu, [&](Launcher& launcher) {
    launcher.launch("repack", launcher.item_threads(), launcher.spread(std::int64_t{p.blocks} * (p.block_bytes / 2)), p);
  });
}

}  // namespace quern::vulkan
