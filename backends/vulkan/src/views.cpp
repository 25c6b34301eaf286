// See views.hpp.
#include "views.hpp"

namespace quern::vulkan {
namespace {

constexpr std::int64_t most_items = std::int64_t{1} << 30;
constexpr std::size_t most_views = 8;

struct Joined {
  std::int64_t dims[QUERN_MAX_DIMS];
  std::int64_t strides[most_views][QUERN_MAX_DIMS];
  std::uint64_t data[most_views];
  int rank = 0;
};

void emit(const Joined& joined, std::size_t count, const Tensor* const* tensors,
          const std::function<void(const Shape&, const View*)>& part) {
  std::int64_t items = 1;
  for (int d = 0; d < joined.rank; ++d) items *= joined.dims[d];
  if (items == 0) return;
  if (items > most_items) {  // cut the first dim that is longer than 1
    int d = 0;
    while (joined.dims[d] == 1) ++d;
    const std::int64_t half = joined.dims[d] / 2;
    Joined low = joined, high = joined;
    low.dims[d] = half;
    high.dims[d] = joined.dims[d] - half;
    for (std::size_t t = 0; t < count; ++t) high.data[t] += static_cast<std::uint64_t>(half * joined.strides[t][d]);
    emit(low, count, tensors, part);
    return emit(high, count, tensors, part);
  }
  Shape shape{};
  shape.count = static_cast<uint>(items);
  shape.rank = joined.rank;
  View views[most_views] = {};
  for (int d = 0; d < QUERN_MAX_DIMS; ++d) shape.dims[d] = d < joined.rank ? static_cast<uint>(joined.dims[d]) : 1;
  for (std::size_t t = 0; t < count; ++t) {
    if (!tensors[t]->present()) continue;
    views[t].data = joined.data[t];
    views[t].dtype = static_cast<int>(tensors[t]->dtype);
    for (int d = 0; d < joined.rank; ++d) views[t].stride[d] = joined.strides[t][d];
    views[t].step = tensors[t]->rank == 0 ? 0 : static_cast<int>(tensors[t]->strides[tensors[t]->rank - 1]);
  }
  part(shape, views);
}

/// `leading`: dims of `dims` that count.
void walk(const Tensor& dims, std::uint32_t leading, const std::vector<const Tensor*>& tensors,
          const std::function<void(const Shape&, const View*)>& part) {
  Joined joined{};
  const std::size_t count = tensors.size();
  for (std::size_t t = 0; t < count; ++t) joined.data[t] = tensors[t]->data;
  for (std::uint32_t d = 0; d < leading; ++d) {
    if (dims.dims[d] == 1) continue;
    std::int64_t strides[most_views] = {};
    for (std::size_t t = 0; t < count; ++t) {
      const Tensor& x = *tensors[t];
      const std::int64_t at = std::int64_t{d} + x.rank - dims.rank;  // aligned at the last
      if (x.present() && at >= 0 && x.dims[at] != 1) strides[t] = x.strides[at];
    }
    bool joins = joined.rank > 0;
    for (std::size_t t = 0; joins && t < count; ++t) joins = joined.strides[t][joined.rank - 1] == strides[t] * dims.dims[d];
    if (!joins) {
      joined.dims[joined.rank] = 1;
      ++joined.rank;
    }
    joined.dims[joined.rank - 1] *= dims.dims[d];
    for (std::size_t t = 0; t < count; ++t) joined.strides[t][joined.rank - 1] = strides[t];
  }
  if (joined.rank == 0) {
    joined.rank = 1;
    joined.dims[0] = 1;
  }
  emit(joined, count, tensors.data(), part);
}

}  // namespace

void for_each_part(const Tensor& dims, std::initializer_list<const Tensor*> tensors,
                   const std::function<void(const Shape&, const View*)>& part) {
  walk(dims, dims.rank, tensors, part);
}

void for_each_row_part(const Tensor& dims, std::initializer_list<const Tensor*> tensors,
                       const std::function<void(const Shape&, const View*)>& part) {
  walk(dims, dims.rank == 0 ? 0 : dims.rank - 1, tensors, part);
}

Tensor in_units(const Tensor& tensor) {
  Tensor units = tensor;
  if (units.rank > 0) units.dims[units.rank - 1] /= static_cast<std::int64_t>(sdk::element_size(tensor.dtype).elements);
  return units;
}

}  // namespace quern::vulkan
