#version 460
// Where the elements of cooperative matrices lie, which is the driver's to choose: for each lane how many components of sums it has, then the
// number of the element that each is (row * size_n + column), then the same of a left matrix and of a right one (matrix_layout.cpp). One
// subgroup.
//
// Constants 1, 2, 3: a matrix.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#pragma use_vulkan_memory_model
#include "memory.glsl"
#include "params_matrices.h"
layout(constant_id = 1) const uint size_m = 16;
layout(constant_id = 2) const uint size_n = 16;
layout(constant_id = 3) const uint size_k = 16;
PUSHED(MatrixLayoutParams)
shared float numbers[size_m * size_n];
shared float16_t halves[256];

void main() {
  const uint lane = gl_SubgroupInvocationID, lanes = gl_WorkGroupSize.x;
  for (uint i = lane; i < size_m * size_n; i += lanes) numbers[i] = float(i);
  for (uint i = lane; i < 256u; i += lanes) halves[i] = float16_t(float(i));  // exact up to 2048
  barrier();
  coopmat<float, gl_ScopeSubgroup, size_m, size_n, gl_MatrixUseAccumulator> sums;
  coopmat<float16_t, gl_ScopeSubgroup, size_m, size_k, gl_MatrixUseA> left;
  coopmat<float16_t, gl_ScopeSubgroup, size_k, size_n, gl_MatrixUseB> right;
  coopMatLoad(sums, numbers, 0, size_n, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(left, halves, 0, size_k, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(right, halves, 0, size_n, gl_CooperativeMatrixLayoutRowMajor);
  const uint parts = uint(sums.length());
  const uint64_t at = p.table + uint64_t(lane * (1u + 3u * p.most)) * 4ul;
  Uint(at).v = parts == uint(left.length()) && parts == uint(right.length()) ? parts : 0u;
  for (uint c = 0; c < p.most; ++c) {
    Uint(at + uint64_t(1u + c) * 4ul).v = c < uint(sums.length()) ? uint(sums[c]) : 0u;
    Uint(at + uint64_t(1u + p.most + c) * 4ul).v = c < uint(left.length()) ? uint(left[c]) : 0u;
    Uint(at + uint64_t(1u + 2u * p.most + c) * 4ul).v = c < uint(right.length()) ? uint(right[c]) : 0u;
  }
}
