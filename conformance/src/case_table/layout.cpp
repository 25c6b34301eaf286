// See layout.hpp.
#include "case_table/layout.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

namespace quern::conformance {

std::string Layout::name() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "_") + part; };
  if (!order.empty()) {
    std::string digits;
    for (const std::uint32_t d : order) digits += std::to_string(d);
    add("order" + digits);
  }
  if (row_gap != 0) add("gap" + std::to_string(row_gap));
  if (repeated != 0) add("repeat" + std::to_string(repeated));
  if (shifted) add("shifted");
  return text.empty() ? "packed" : text;
}

Placement::Placement(quern_dtype dtype, const Dims& dims, const Layout& layout) : unit_dims_(dims), strides_(dims.size()) {
  const Unit unit = unit_of(dtype);
  unit_bytes_ = unit.bytes;
  packed_ = layout.packed();
  if (!dims.empty()) unit_dims_.back() /= unit.elements;
  std::vector<std::uint32_t> order = layout.order;
  if (order.empty()) {
    order.resize(dims.size());
    std::iota(order.begin(), order.end(), 0u);
  }
  if (order.size() != dims.size()) throw std::logic_error("a layout orders another number of dimensions than the value has");
  std::int64_t step = static_cast<std::int64_t>(unit.bytes);
  bytes_ = unit.bytes;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::uint32_t d = order[i];
    if ((layout.repeated >> d & 1u) != 0) continue;  // stride 0
    strides_[d] = step;
    bytes_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, unit_dims_[d] - 1) * step);
    step *= std::max<std::int64_t>(1, unit_dims_[d]);
    if (i + 1 == order.size()) step += layout.row_gap * static_cast<std::int64_t>(unit.bytes);
  }
  for (const std::int64_t d : unit_dims_)
    if (d == 0) bytes_ = 0;
}

template <class F>
void Placement::each_row(const F& f) const {
  if (bytes_ == 0) return;
  if (unit_dims_.empty()) return f(0, 0);
  std::vector<std::int64_t> index(unit_dims_.size(), 0);
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(unit_dims_.back()) * unit_bytes_;
  for (std::uint64_t row = 0;; ++row) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d + 1 < index.size(); ++d) at += index[d] * strides_[d];
    f(row * row_bytes, static_cast<std::uint64_t>(at));
    std::size_t d = index.size() - 1;
    while (d > 0 && ++index[d - 1] == unit_dims_[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

void Placement::scatter(std::span<const std::byte> packed, std::span<std::byte> memory) const {
  if (packed_) {
    if (!packed.empty()) std::memcpy(memory.data(), packed.data(), packed.size());
    return;
  }
  const std::int64_t units = unit_dims_.empty() ? 1 : unit_dims_.back(), step = strides_.empty() ? 0 : strides_.back();
  each_row([&](std::uint64_t from, std::uint64_t to) {
    for (std::int64_t i = 0; i < units; ++i)
      std::memcpy(memory.data() + to + static_cast<std::uint64_t>(i * step),
                  packed.data() + from + static_cast<std::uint64_t>(i) * unit_bytes_, unit_bytes_);
  });
}

void Placement::gather(std::span<const std::byte> memory, std::span<std::byte> packed) const {
  if (packed_) {
    if (!packed.empty()) std::memcpy(packed.data(), memory.data(), packed.size());
    return;
  }
  const std::int64_t units = unit_dims_.empty() ? 1 : unit_dims_.back(), step = strides_.empty() ? 0 : strides_.back();
  each_row([&](std::uint64_t to, std::uint64_t from) {
    for (std::int64_t i = 0; i < units; ++i)
      std::memcpy(packed.data() + to + static_cast<std::uint64_t>(i) * unit_bytes_,
                  memory.data() + from + static_cast<std::uint64_t>(i * step), unit_bytes_);
  });
}

std::vector<bool> Placement::covered() const {
  std::vector<bool> flags(bytes_, packed_);
  if (packed_) return flags;
  const std::int64_t units = unit_dims_.empty() ? 1 : unit_dims_.back(), step = strides_.empty() ? 0 : strides_.back();
  each_row([&](std::uint64_t, std::uint64_t at) {
    for (std::int64_t i = 0; i < units; ++i)
      for (std::uint64_t b = 0; b < unit_bytes_; ++b) flags[at + static_cast<std::uint64_t>(i * step) + b] = true;
  });
  return flags;
}

}  // namespace quern::conformance
