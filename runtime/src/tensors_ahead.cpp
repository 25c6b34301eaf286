// See tensors_ahead.hpp.
#include "tensors_ahead.hpp"

#include "parallel.hpp"
#include "resident.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace quern::runtime {
namespace {

/// So that no two tensors share a line of a cache.
std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

/// Parts of a tensor that lies along columns touch all of its pages: its threads would all fault on the same ones.
void make_sources_resident(const std::vector<std::vector<std::span<const std::byte>>>& lying, std::uint32_t threads) {
  constexpr std::uint64_t at_once = 2 << 20;
  std::vector<std::span<const std::byte>> ranges;
  for (const auto& pieces : lying)
    for (const std::span<const std::byte> piece : pieces)
      for (std::uint64_t at = 0; at < piece.size(); at += at_once)
        ranges.push_back(piece.subspan(at, std::min(at_once, piece.size() - at)));
  in_parallel(threads, ranges.size(), [&](std::uint64_t i) { make_resident(ranges[i]); });
}

}  // namespace

TensorsAhead::TensorsAhead(const gguf::File& file, std::vector<const gguf::TensorInfo*> tensors, std::uint32_t threads, Making making)
    : file_(file), tensors_(std::move(tensors)), threads_(threads), making_(making) {
  constexpr std::uint64_t least = 32 << 20, most = 384 << 20;
  std::uint64_t total = 0;
  for (const gguf::TensorInfo* tensor : tensors_) total += tensor->bytes;
  if (threads_ > 1) most_ahead_ = std::clamp(total / 16, least, most);
  choose(soon_, 0);
}

std::span<const std::byte> TensorsAhead::next() {
  if (turns()) turn_to_next();
  return now_.tensors[now_.tensors.size() - (now_.end - given_++)];
}

void TensorsAhead::turn_to_next() {
  maker_.join();
  std::swap(now_, soon_);
  if (!soon_is_made_) {
    std::swap(now_.memory, soon_.memory);  // its pages are there
    std::swap(now_.capacity, soon_.capacity);
    if (now_.bytes <= most_of_batch() && now_.capacity > most_of_batch()) now_.forget_memory();
    if (now_.bytes > most_of_batch()) soon_.forget_memory();  // one that is larger stands alone
    make(now_, given_);
  }
  if (now_.failure) std::rethrow_exception(now_.failure);
  choose(soon_, now_.end);
  soon_is_made_ = making_ == Making::beside_use && soon_.bytes != 0 &&
                  std::max(now_.bytes, now_.capacity) + std::max(soon_.bytes, soon_.capacity) <= most_ahead_;
  if (!soon_is_made_) return;
  try {
    maker_ = sdk::Thread([this] { make(soon_, now_.end); });
  } catch (const std::system_error&) {  // no thread: it is made when it is asked for
    soon_is_made_ = false;
  }
}

/// What fits into a batch from tensor `first` on; one at least.
void TensorsAhead::choose(Batch& batch, std::size_t first) const {
  batch.end = first;
  batch.bytes = 0;
  for (; batch.end < tensors_.size(); ++batch.end) {
    const gguf::TensorInfo& tensor = *tensors_[batch.end];
    if (!file_.is_made(tensor)) continue;
    if (batch.bytes != 0 && batch.bytes + padded(tensor.bytes) > most_of_batch()) return;
    batch.bytes += padded(tensor.bytes);
  }
}

void TensorsAhead::make(Batch& batch, std::size_t first) const {
  batch.failure = nullptr;
  try {
    make_parts(batch, first);
  } catch (...) { batch.failure = std::current_exception(); }
}

void TensorsAhead::make_parts(Batch& batch, std::size_t first) const {
  if (batch.capacity < batch.bytes) {
    batch.forget_memory();
    batch.memory = std::make_unique_for_overwrite<std::byte[]>(batch.bytes);  // first touched by the threads that fill it
    batch.capacity = batch.bytes;
  }
  std::vector<std::vector<std::span<const std::byte>>> lying;
  std::vector<gguf::TensorParts> parts;
  std::vector<std::uint64_t> ends;  // of each one's parts among all
  std::uint64_t count = 0, offset = 0;
  lying.reserve(batch.end - first);
  batch.tensors.clear();
  for (std::size_t i = first; i < batch.end; ++i) {
    const gguf::TensorInfo& tensor = *tensors_[i];
    if (!file_.is_made(tensor)) {
      batch.tensors.push_back(file_.data(tensor));
      continue;
    }
    const std::span<std::byte> made(batch.memory.get() + offset, tensor.bytes);
    offset += padded(tensor.bytes);
    lying.push_back(file_.lying(tensor));
    parts.push_back(file_.parts(tensor, lying.back(), made));
    ends.push_back(count += parts.back().count);
    batch.tensors.push_back(made);
  }
  make_sources_resident(lying, threads_);
  in_parallel(threads_, count, [&](std::uint64_t i) {
    const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
    parts[at].make(at == 0 ? i : i - ends[at - 1]);
  });
}

}  // namespace quern::runtime
