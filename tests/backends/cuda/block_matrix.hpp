// Weights of the conformance suite for kernels over a card in plain C++, with their numbers as its own reader decodes them.
#pragma once

#include "tensor.hpp"

#include "data/block_format.hpp"

#include <cstring>
#include <initializer_list>
#include <vector>

namespace quern::cuda {

/// Bytes at a multiple of 16, as a card's memory has them.
struct Bytes {
  explicit Bytes(std::uint64_t size) : words(size / 16 + 1) {}
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(words.data()); }
  Address address() noexcept { return reinterpret_cast<Address>(words.data()); }
  std::vector<uint4> words;
};

/// Matrices of random blocks, canonical or in planes; a block behind them is NaN. Strides are those of rows in both, as the SDK gives them.
struct BlockMatrix {
  BlockMatrix(quern_dtype dtype, std::initializer_list<std::int64_t> dims, bool planes, const char* name)
      : layout{dtype, 1, *(dims.end() - 1)} {
    for (const std::int64_t dim : dims) tensor.dims[tensor.rank++] = dim;
    for (std::uint32_t d = 0; d + 1 < tensor.rank; ++d) layout.rows *= tensor.dims[d];
    bytes = Bytes(layout.bytes() + layout.source_bytes());
    numbers.resize(static_cast<std::size_t>(layout.rows * layout.k));
    const conformance::BlockFormat& format = *conformance::BlockFormat::find(dtype);
    Bytes source(layout.source_bytes());
    format.fill(source.data(), static_cast<std::int64_t>(layout.blocks()), conformance::BlockData::usual,
                conformance::CounterRandom::of(name));
    format.read(source.data(), 0, layout.rows * layout.k, numbers.data());
    const sdk::BlockFields& fields = sdk::block_fields(dtype);
    std::memset(bytes.data(), 0xff, layout.bytes() + layout.source_bytes());
    if (!planes) std::memcpy(bytes.data(), source.data(), layout.source_bytes());
    for (std::uint64_t block = 0; planes && block < layout.blocks(); ++block)
      for (int f = 0; f < sdk::BlockFields::count; ++f)
        std::memcpy(bytes.data() + layout.plane(f) + block * fields.bytes[f], source.data() + block * fields.block_bytes + fields.offset[f],
                    fields.bytes[f]);
    tensor.data = bytes.address();
    tensor.dtype = dtype;
    tensor.packed_layout = planes;
    std::int64_t packed = fields.block_bytes;
    for (std::uint32_t d = tensor.rank; d-- > 0;) {
      tensor.strides[d] = packed;
      packed *= d + 1 == tensor.rank ? tensor.dims[d] / fields.elements : tensor.dims[d];
    }
  }

  sdk::PlaneLayout layout;
  Bytes bytes{0};
  std::vector<double> numbers;
  Tensor tensor;
};

}  // namespace quern::cuda
