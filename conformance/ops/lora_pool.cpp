// See lora_pool.hpp.
#include "ops/lora_pool.hpp"

#include <bit>
#include <limits>

namespace quern::conformance {
namespace {

/// Where A of each adapter starts; B follows it after the gap.
std::vector<AdapterPlace> places(const LoraShape& s) {
  std::vector<AdapterPlace> all;
  std::int64_t at = s.gap;
  for (const PoolAdapter& adapter : s.adapters) {
    AdapterPlace place{at, at + adapter.rank * s.k + s.gap, adapter.rank, static_cast<double>(adapter.scale)};
    at = place.b + adapter.rank * s.n + s.gap;
    all.push_back(place);
  }
  return all;
}

}  // namespace

std::int64_t pool_size(const LoraShape& s) {
  std::int64_t size = s.gap;
  for (const PoolAdapter& adapter : s.adapters) size += adapter.rank * (s.k + s.n) + 2 * s.gap;
  return size;
}

std::vector<std::int64_t> row_slots(const LoraShape& s) {
  if (!s.slots.empty() || s.rows == 0) return s.slots;
  const auto count = static_cast<std::int64_t>(s.adapters.size());
  std::vector<std::int64_t> slots;
  for (std::int64_t t = 0; t < s.rows; ++t) slots.push_back(s.rows == 1 ? 0 : t % (count + 1) == count ? -1 : t % (count + 1));
  return slots;
}

std::vector<ValueSpec> lora_inputs(const LoraShape& s, Layout x_layout) {
  const std::vector<AdapterPlace> all = places(s);
  std::vector<double> table;
  for (const AdapterPlace& p : all)
    for (const double entry :
         {static_cast<double>(p.a), static_cast<double>(p.b), static_cast<double>(p.rank), bits_as_i32(static_cast<float>(p.scale))})
      table.push_back(entry);
  ValueSpec pool =
      filled(input(s.pool, {pool_size(s)}, s.data), std::string(data_name(s.data)) + "_gaps_nan",
             [s, all](const Tensor& t, const CounterRandom& random) {
               for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, std::numeric_limits<double>::quiet_NaN());
               for (std::size_t i = 0; i < all.size(); ++i) {
                 const std::uint64_t unit = unit_of(t.dtype()).bytes;
                 const auto part = [&](std::int64_t at, Dims dims, std::uint64_t stream) {
                   const std::int64_t count = element_count(dims);
                   fill(Tensor(t.dtype(), std::move(dims),
                               t.bytes().subspan(static_cast<std::uint64_t>(at) * unit, static_cast<std::uint64_t>(count) * unit)),
                        s.data, random.stream(stream));
                 };
                 part(all[i].a, {all[i].rank, s.k}, 2 * i);
                 part(all[i].b, {s.n, all[i].rank}, 2 * i + 1);
               }
             });
  return {input(s.x, {s.rows, s.k}, s.data, std::move(x_layout)), std::move(pool),
          given(input(QUERN_I32, {static_cast<std::int64_t>(all.size()), 4}), "table", table),
          given(input(QUERN_I32, {s.rows}), "slots", row_slots(s))};
}

std::string lora_note(const LoraShape& s) {
  std::string text;
  for (const PoolAdapter& a : s.adapters) {
    text += (text.empty() ? "r" : "_r") + std::to_string(a.rank);
    if (a.scale != 1) text += "x" + std::to_string(static_cast<int>(a.scale * 16));
  }
  if (s.slots.empty()) return text;
  text += "_slots";
  for (const std::int64_t slot : s.slots) text += slot < 0 ? "-" : std::to_string(slot);
  return text;
}

std::optional<AdapterPlace> adapter_of(const Tensor& x, const Tensor& pool, const Tensor& table, std::int64_t slot, std::int64_t n) {
  return adapter_of(x.dims()[1], pool, table, slot, n);
}

std::optional<AdapterPlace> adapter_of(std::int64_t k, const Tensor& pool, const Tensor& table, std::int64_t slot, std::int64_t n) {
  if (slot < 0 || slot >= table.dims()[0]) return std::nullopt;
  const auto entry = [&](std::int64_t i) { return static_cast<std::int64_t>(table.at(slot * 4 + i)); };
  const AdapterPlace place{entry(0), entry(1), entry(2), static_cast<double>(std::bit_cast<float>(static_cast<std::int32_t>(entry(3))))};
  if (place.a < 0 || place.b < 0 || place.rank < 0 || place.a + place.rank * k > pool.count() || place.b + place.rank * n > pool.count())
    return std::nullopt;
  return place;
}

}  // namespace quern::conformance
