// Ids of element types and block formats: those of quern_dtypes.h, which NVRTC has no headers for. tensor.cpp holds them equal.
#pragma once

namespace quern::cuda {

enum Dtype {
  F32 = 1,
  F16 = 2,
  BF16 = 3,
  I32 = 4,
  I64 = 5,
  U32 = 6,
  U8 = 7,
  Q4_0 = 32,
  Q4_1 = 33,
  Q5_0 = 34,
  Q5_1 = 35,
  Q8_0 = 36,
  Q4_K = 42,
  Q5_K = 43,
  Q6_K = 44
};

/// The block formats with kernels that multiply int8 activations or read planes: row(FORMAT) for each, and last(FORMAT) for the last. A format
/// in a file of its own, format_<format>.cuh, has neither: kernels that decode sixteen elements at a time take it.
#define QUERN_CUDA_FAST_FORMATS(row, last) row(Q4_0) row(Q4_1) row(Q5_0) row(Q5_1) row(Q8_0) row(Q4_K) row(Q5_K) last(Q6_K)

/// Those that kquants_formats.cuh brings to the matrix units as f16: rows of whole blocks of 256, in planes but where blocks are multiples of 16 bytes.
/// row(name, NAME) for each.
#define QUERN_CUDA_HALF_FORMATS(row) \
  row(q4_0, Q4_0) row(q4_1, Q4_1) row(q5_0, Q5_0) row(q5_1, Q5_1) row(q8_0, Q8_0) row(q4_k, Q4_K) row(q5_k, Q5_K) row(q6_k, Q6_K)
/// Those of files of their own that it brings there too, in planes; products of experts have no kernels for them.
#define QUERN_CUDA_GROUP_FORMATS(row) \
  row(q4_z32, Q4_Z32) row(q4_z64, Q4_Z64) row(q4_z128, Q4_Z128) row(q8_z128, Q8_Z128) row(q8_128, Q8_128) row(f8_128, F8_128) \
      row(nf4_64, NF4_64) row(fp4_64, FP4_64)

}  // namespace quern::cuda
