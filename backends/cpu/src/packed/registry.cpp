// See registry.hpp.
#include "registry.hpp"

#include "../view.hpp"

#include "quern/quern_graph.h"

#include <algorithm>
#include <charconv>

namespace quern::cpu {
namespace {

/// Of keys: a number without sign, with nothing behind it.
std::int64_t parse_size(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 && value <= (std::int64_t{1} << 40) ? value : 0;
}

}  // namespace

const PackedSet* packed_set_for(const Processor& processor, Isa best) noexcept {
  if (best >= Isa::avx512 && processor.fast_bf16) return &packed_set_avx512_bf16();
  if (best >= Isa::avx512 && processor.vnni && !packed_set_avx512_vnni().layouts.empty()) return &packed_set_avx512_vnni();
  if (best >= Isa::avx2 && processor.best >= Isa::avx2 && !packed_set_avx2().layouts.empty()) return &packed_set_avx2();
  return nullptr;
}

bool conversions_allow(std::uint32_t conversions, Activations activations) noexcept {
  switch (activations) {
    case Activations::f32: return true;
    case Activations::bf16: return (conversions & QUERN_CONVERT_BF16) != 0;
    case Activations::int8_32:
    case Activations::int8_256: break;
  }
  return (conversions & QUERN_CONVERT_INT8) != 0;
}

const PackedLayout* find_packed_layout(const PackedSet& set, quern_dtype format, std::int64_t k, std::uint32_t conversions) noexcept {
  for (const PackedLayout& layout : set.layouts)
    if (layout.format == format && k > 0 && k % layout.k_multiple == 0 && conversions_allow(conversions, layout.activations))
      return &layout;
  return nullptr;
}

const PackedLayout& multiplying_layout(const PackedLayout& panels, Isa isa) noexcept {
  if (isa == Isa::amx)
    for (const PackedLayout& layout : packed_set_avx512_amx().layouts)
      if (layout.format == panels.format && layout.activations == panels.activations) return layout;
  return panels;
}

std::uint64_t PackedKey::source_bytes() const noexcept {
  return static_cast<std::uint64_t>(matrices() * rows * (k / unit_elements(layout->format) * unit_bytes(layout->format)));
}
std::uint64_t PackedKey::bytes() const noexcept { return static_cast<std::uint64_t>(packed_bytes(*this)); }

PackedKey parse_packed_key(std::string_view key) {
  const std::size_t slash = key.rfind('/');
  if (slash == std::string_view::npos) return {};
  std::int64_t sizes[3] = {};
  std::size_t count = 0;
  for (std::string_view rest = key.substr(slash + 1);; ++count) {
    if (count == 3) return {};
    const std::size_t cross = rest.find('x');
    sizes[count] = parse_size(rest.substr(0, cross));
    if (sizes[count] == 0) return {};
    if (cross == std::string_view::npos) break;
    rest.remove_prefix(cross + 1);
  }
  if (count == 0) return {};
  const std::int64_t experts = count == 2 ? sizes[0] : 0, rows = sizes[count - 1], k = sizes[count];
  // No sum or product of sizes that follows from a key leaves 63 bits.
  if (static_cast<double>(std::max<std::int64_t>(1, experts)) * static_cast<double>(rows) * static_cast<double>(k) > 0x1p50) return {};
  static const Processor processor = detect_processor();
  for (const Isa isa : {Isa::avx512, Isa::avx2}) {
    const PackedSet* set = packed_set_for(processor, isa);
    if (set == nullptr) continue;
    for (const PackedLayout& layout : set->layouts)
      if (key.substr(0, slash) == layout.key && k % layout.k_multiple == 0) return {&layout, experts, rows, k};
  }
  return {};
}

std::string packed_key(const PackedKey& key) {
  std::string text = std::string(key.layout->key) + '/';
  if (key.experts != 0) text += std::to_string(key.experts) + 'x';
  return text + std::to_string(key.rows) + 'x' + std::to_string(key.k);
}

}  // namespace quern::cpu
