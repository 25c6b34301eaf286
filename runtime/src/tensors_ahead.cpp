// See tensors_ahead.hpp.
#include "tensors_ahead.hpp"

#include "parallel.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace quern::runtime {

TensorsAhead::TensorsAhead(const gguf::File& file, std::vector<const gguf::TensorInfo*> tensors, std::uint32_t threads)
    : file_(file), tensors_(std::move(tensors)), threads_(threads) {
  constexpr std::uint64_t least = 32 << 20, most = 384 << 20;
  std::uint64_t total = 0;
  for (const gguf::TensorInfo* tensor : tensors_) total += tensor->bytes;
  if (threads_ > 1) most_ahead_ = std::clamp(total / 16, least, most);
}

gguf::TensorBytes TensorsAhead::next() {
  if (made_.empty()) make_some();
  gguf::TensorBytes bytes = std::move(made_.front());
  made_.pop_front();
  return bytes;
}

void TensorsAhead::make_some() {
  std::uint64_t bytes = tensors_.at(begun_)->bytes;
  std::size_t end = begun_ + 1;
  while (end < tensors_.size() && bytes + tensors_[end]->bytes <= most_ahead_) bytes += tensors_[end++]->bytes;
  std::vector<std::optional<gguf::TensorBytes>> some(end - begun_);
  in_parallel(threads_, some.size(), [&](std::uint64_t i) { some[i].emplace(file_.read(*tensors_[begun_ + i])); });
  for (std::optional<gguf::TensorBytes>& one : some) made_.push_back(std::move(*one));
  begun_ = end;
}

}  // namespace quern::runtime
