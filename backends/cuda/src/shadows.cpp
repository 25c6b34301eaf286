// See shadows.hpp.
#include "shadows.hpp"

#include "ops/arrange.hpp"

namespace quern::cuda {
namespace {

bool is_16bit(const Tensor& t) { return t.dtype == QUERN_F16 || t.dtype == QUERN_BF16; }
std::uint64_t copy_bytes(const Tensor& t) { return (static_cast<std::uint64_t>(t.elements()) * 2 + 255) / 256 * 256; }

std::uint64_t source_bytes(const Tensor& t) {
  if (t.packed_layout) return sdk::PlaneLayout{t.dtype, t.dims[0], t.last()}.bytes();
  const sdk::ElementSize size = sdk::element_size(t.dtype);
  return static_cast<std::uint64_t>(t.elements()) / size.elements * size.bytes;
}

}  // namespace

Shadows::~Shadows() { give_up(); }

bool Shadows::make(std::span<const Source> sources, Launcher& launcher) {
  std::uint64_t needed = 0;
  bool there = true, contiguous = true;
  for (const Source& source : sources) {
    const Tensor& t = source.matrix;
    if (is_16bit(t)) continue;
    there = there && find(source) != 0;
    contiguous = contiguous && t.elements() * 2 % 256 == 0;
    needed += copy_bytes(t);
  }
  if (there) return true;
  const std::uint64_t budget = gpu_.budget(), used = gpu_.used();
  if (budget < used || budget - used < needed + spare_bytes) return false;
  const std::unique_lock lock = keep();
  for (const Source& source : sources) drop_range(source.matrix.data, 1);
  const std::size_t id = next_block_++;
  Block& block = blocks_[id];
  try {
    block = {gpu_.allocate(needed, "16-bit copies of weights", true), needed, 0};
  } catch (const Failure& failure) {
    blocks_.erase(id);
    if (failure.code != QUERN_OUT_OF_MEMORY) throw;
    return false;
  } catch (...) {
    blocks_.erase(id);
    throw;
  }
  bytes_ += needed;
  try {
    Address at = block.memory;
    for (const auto& [t, order] : sources) {
      if (is_16bit(t)) continue;
      launch_unpack(t, order, at, launcher);
      copies_[t.data] = {t.dtype, t.dims[0], t.last(), source_bytes(t), order.key, at, id};
      ++block.matrices;
      at += copy_bytes(t);
    }
  } catch (...) {
    gpu_.driver().cuCtxSynchronize();  // what was launched writes there
    std::erase_if(copies_, [id](const auto& copy) { return copy.second.block == id; });
    gpu_.release(block.memory, needed);
    bytes_ -= needed;
    blocks_.erase(id);
    throw;
  }
  return true;
}

Address Shadows::find(const Source& source) const noexcept {
  const Tensor& t = source.matrix;
  if (is_16bit(t)) return t.data;
  const auto copy = copies_.find(t.data);
  return copy != copies_.end() && copy->second.dtype == t.dtype && copy->second.rows == t.dims[0] && copy->second.k == t.last() &&
                 copy->second.order == source.order.key
             ? copy->second.at
             : 0;
}

void Shadows::drop(std::map<Address, Copy>::iterator copy) noexcept {
  const auto block = blocks_.find(copy->second.block);
  copies_.erase(copy);
  if (--block->second.matrices > 0) return;
  gpu_.release(block->second.memory, block->second.bytes);
  bytes_ -= block->second.bytes;
  blocks_.erase(block);
}

void Shadows::forget(Address from, std::uint64_t bytes) noexcept {
  const std::unique_lock lock = keep();
  if (copies_.empty() || gpu_.driver().cuCtxPushCurrent_v2(gpu_.context()) != constant::success) return;
  drop_range(from, bytes);
  Context ignored = nullptr;
  gpu_.driver().cuCtxPopCurrent_v2(&ignored);
}

void Shadows::drop_range(Address from, std::uint64_t bytes) noexcept {
  auto at = copies_.upper_bound(from);
  if (at != copies_.begin()) --at;
  while (at != copies_.end() && at->first < from + bytes) {
    const auto next = std::next(at);
    if (at->first + at->second.source_bytes > from) {
      gpu_.driver().cuCtxSynchronize();
      drop(at);
    }
    at = next;
  }
}

bool Shadows::give_up() noexcept {
  const std::unique_lock lock = keep();
  if (copies_.empty()) return false;
  gpu_.driver().cuCtxSynchronize();
  while (!copies_.empty()) drop(copies_.begin());
  return true;
}

}  // namespace quern::cuda
