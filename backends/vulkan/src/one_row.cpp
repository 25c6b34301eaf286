// See one_row.hpp.
#include "one_row.hpp"

#include <quern/sdk/graph.hpp>

#include <algorithm>
#include <cmath>

namespace quern::vulkan {
namespace {

constexpr std::size_t most_products = 3;  // as in OneRowParams

double bytes_of(const OneRowProduct& product) {
  const sdk::ElementSize size = sdk::element_size(static_cast<quern_dtype>(product.format));
  return static_cast<double>(product.params.n) * product.k / static_cast<double>(size.elements) * static_cast<double>(size.bytes);
}

/// Workgroups on a software device: few, since each makes the row, and as many as keep the turns of a thread's loops below most_loop_turns. A load of
/// 8 lanes is 64 elements each of two rows, and half of its loop's turns load nothing: 2^23 elements are 32,768 turns for each of 4 subgroups.
std::int64_t software_groups(const std::vector<OneRowProduct>& products) {
  std::int64_t elements = 0;
  for (const OneRowProduct& product : products) elements += std::int64_t{product.params.n} * product.k;
  return std::max<std::int64_t>(4, elements >> 23);
}

/// Loads of 16 bytes under way for each row: a subgroup's are no more than the row has.
std::int32_t loads_of(const OneRowProduct& product, const CardFacts& card) {
  constexpr std::int64_t most_loads = 4;
  const sdk::ElementSize size = sdk::element_size(static_cast<quern_dtype>(product.format));
  const std::int64_t codes = static_cast<std::int64_t>(size.bytes) * product.k / static_cast<std::int64_t>(size.elements),
                     lanes = std::max<std::uint32_t>(1, card.subgroup);
  return static_cast<std::int32_t>(
      !sdk::is_block(static_cast<quern_dtype>(product.format)) ? most_loads : std::clamp<std::int64_t>(codes / 16 / lanes, 1, most_loads));
}

/// What lies in shared memory: f32 where there is room for it, and the table as often as there is room; 16 copies have one bank for two lanes.
void share_memory(const OneRowProduct& product, const CardFacts& card, OneRowLaunch& launch) {
  constexpr std::uint32_t most_copies = 16;
  const std::uint64_t table = table_bytes(product.format), room = card.shared_limit - one_row_others, whole = std::uint64_t{product.k} * 4;
  const bool coded = sdk::is_block(static_cast<quern_dtype>(product.format));
  launch.copies = table == 0 || card.software() ? 1 : most_copies;
  launch.half_row = coded && whole + static_cast<std::uint64_t>(launch.copies) * table > room;
  const std::uint64_t row = launch.half_row ? half_row_bytes(product.k) : whole;
  while (launch.copies > 1 && row + static_cast<std::uint64_t>(launch.copies) * table > room) launch.copies /= 2;
}

}  // namespace

bool share_launch(const std::vector<OneRowProduct>& products, const OneRowProduct& next) {
  const OneRowProduct& first = products.front();
  const RowProductParams &a = first.params, &b = next.params;
  if (products.size() >= most_products || first.paired || next.paired || a.c != 0 || b.c != 0) return false;
  if (a.x != b.x || a.other != b.other || first.mode != next.mode || first.k != next.k || a.epsilon != b.epsilon || a.offset != b.offset)
    return false;
  if (a.bias_dtype != b.bias_dtype) return false;
  if (wants_floats(first.format) || wants_floats(next.format)) return first.format == next.format;
  const auto other = std::ranges::find_if(products, [&](const OneRowProduct& p) { return p.format != first.format; });
  return next.format == first.format || other == products.end() || next.format == other->format;
}

OneRowLaunch one_row_launch(const std::vector<OneRowProduct>& products, const CardFacts& card) {
  const OneRowProduct& first = products.front();
  OneRowLaunch launch;
  // One workgroup a multiprocessor, so that all are at work at once and each makes the row for as many subgroups as there is room for. The 7B
  // Q4_K_M on an H200: 768 threads 421 tokens/s, 640 416, 512 408, 384 373; two of 256 386. Its gate and up by 1,024, where 491 were had: 506; Q8_0's
  // lose (381, 378). f16: 768 237, 512 240, 640 236.
  const bool known = card.multiprocessors != 0;
  const std::uint32_t most = wants_floats(first.format) ? 512 : first.format == static_cast<int>(QUERN_Q4_K) && first.paired ? 1024 : 768;
  launch.threads = card.software() ? 32 : std::min<std::uint32_t>(known ? most : 256, card.group_limit);
  const std::int64_t at_once = card.software() ? software_groups(products) : known ? card.multiprocessors : 96;
  double all = 0, before = 0;
  for (const OneRowProduct& product : products) all += bytes_of(product);
  OneRowParams& p = launch.params;
  p.x = first.params.x;
  p.other = first.params.other;
  p.c = first.params.c;
  p.epsilon = first.params.epsilon;
  p.offset = first.params.offset;
  p.bias_dtype = first.params.bias_dtype;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const RowProductParams& part = products[i].params;
    p.b[i] = part.b;
    p.bias[i] = part.bias;
    p.y[i] = part.y;
    p.n[i] = part.n;
    if (products[i].format != first.format) {
      launch.other_format = products[i].format;
      launch.parts_of_other |= 1 << i;
    }
    if (i == 1) p.begins = static_cast<uint>(launch.groups);
    if (i == 2) p.begins |= static_cast<uint>(launch.groups) << 16;
    before += bytes_of(products[i]);
    const std::int64_t tiles = std::max<std::int64_t>(1, first.paired ? part.n : (part.n + 1) / 2);
    const std::int64_t end = all > 0 ? std::llround(static_cast<double>(at_once) * before / all) : 0;
    launch.groups += std::clamp<std::int64_t>(end - launch.groups, 1, tiles);
  }
  if (first.paired) p.b[1] = first.params.other_b;
  if (wants_floats(first.format)) {
    launch.loads = loads_of(first, card);
    share_memory(first, card, launch);
  }
  return launch;
}

}  // namespace quern::vulkan
