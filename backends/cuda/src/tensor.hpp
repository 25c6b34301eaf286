// A value of a graph as ops see it: where its memory is, dtype, dims and byte strides, and how weights lie in planes.
#pragma once

#include "error.hpp"
#include "kernels/params.hpp"

namespace quern::cuda {

/// How a weight matrix lies in memory.
struct WeightLayout {
  quern_dtype dtype = 0;
  std::int64_t rows = 0, k = 0;
  bool planes = false;  // else canonical
};
/// "cuda.planes.q6_k.4096x11008"; empty dtype for a key that is not ours.
WeightLayout parse_layout(std::string_view key);
std::string layout_key(const WeightLayout& layout);
/// Bytes of a packed matrix.
std::uint64_t layout_bytes(const WeightLayout& layout);
/// Whether packing gains anything: formats whose blocks do not start at multiples of 16 bytes.
bool wants_planes(quern_dtype dtype);

/// The pieces of a block: see Blocks in params.hpp.
struct Pieces {
  int block_bytes = 0, elements = 0;
  int offset[4] = {}, bytes[4] = {};
};
Pieces pieces_of(quern_dtype dtype);

struct Tensor {
  Address data = 0;
  quern_dtype dtype = QUERN_DTYPE_NONE;  // NONE: absent
  std::uint32_t rank = 0;
  std::uint32_t ranged = 0;  // bit d: dims[d] may be smaller in a run
  std::int64_t dims[QUERN_MAX_DIMS] = {};
  std::int64_t strides[QUERN_MAX_DIMS] = {};  // bytes
  bool planes = false;
  const char* name = "";

  bool present() const noexcept { return dtype != QUERN_DTYPE_NONE; }
  std::int64_t last() const noexcept { return rank == 0 ? 1 : dims[rank - 1]; }
  std::int64_t elements() const noexcept;
  std::int64_t rows() const noexcept;  // product of all dims but the last
  bool contiguous() const;    // packed in row-major order, at the dims it has now
};

bool is_float(quern_dtype dtype) noexcept;
bool is_block(quern_dtype dtype) noexcept;
std::string describe(const Tensor& tensor);
View view_of(const Tensor& tensor) noexcept;
/// A matrix of any dtype whose rows are k elements long, as kernels decode it. k is a multiple of 16.
Blocks blocks_of(const Tensor& tensor) noexcept;

}  // namespace quern::cuda
