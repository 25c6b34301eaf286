// Memory by address, element types, loops over items and rows. Without the parameters of all kernels, so that a change of those leaves the
// kernels that do not read them as they are (spirv/README.md).
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;

#define PUSHED(Params) layout(push_constant, std430) uniform Pushed { Params p; };
#define STORED(Params)                                                                                              \
  layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer ParamsAt { Params params; };        \
  layout(push_constant, std430) uniform Pushed { uint64_t stored; };
// Used as STORED(Params) then `#define p (ParamsAt(stored).params)`, since a macro cannot define one.

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Float { float v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Int { int v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uint { uint v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer UintPair { uint a, b; };  // 8 bytes at a multiple of 4
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Short { uint16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Byte { uint8_t v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Float4 { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Uint4 { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer FloatPair { vec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Long { int64_t v; };

#define F32 1
#define F16 2
#define BF16 3
#define I32 4
#define I64 5
#define U32 6
#define U8 7

#define INFINITY uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

/// Every bit pattern, subnormals too: conversions of the driver may flush them.
float half_to_float(uint h) {
  const uint e = h >> 10 & 31u, m = h & 1023u;
  const float f = e == 0u ? float(m) * 5.9604644775390625e-8 : uintBitsToFloat((e == 31u ? 255u : e + 112u) << 23 | m << 13);
  return uintBitsToFloat(floatBitsToUint(f) | (h & 0x8000u) << 16);
}
/// Round to nearest even.
uint float_to_half(float x) {
  const uint b = floatBitsToUint(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a < 0x33000001u) return sign;
  if (a < 0x38800000u) {  // subnormal
    const uint shift = 126u - (a >> 23), m = (a & 0x7fffffu) | 0x800000u;
    const uint kept = m >> shift, rest = m & ((1u << shift) - 1u), half_way = 1u << (shift - 1u);
    return sign | (kept + uint(rest > half_way || (rest == half_way && (kept & 1u) != 0u)));
  }
  return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
}
float bf16_to_float(uint h) { return uintBitsToFloat(h << 16); }
uint float_to_bf16(float x) {
  const uint b = floatBitsToUint(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) return b >> 16 | 0x40u;
  return b + 0x7fffu + (b >> 16 & 1u) >> 16;
}

uint float_bytes(int dtype) { return dtype == F32 ? 4u : 2u; }
float load_float(uint64_t at, int dtype) {
  if (dtype == F32) return Float(at).v;
  const uint h = uint(Short(at).v);
  return dtype == F16 ? half_to_float(h) : bf16_to_float(h);
}
void store_float(uint64_t at, int dtype, float x) {
  if (dtype == F32) Float(at).v = x;
  else Short(at).v = uint16_t(dtype == F16 ? float_to_half(x) : float_to_bf16(x));
}
/// Element i of packed floats.
float load_packed(uint64_t base, int dtype, uint i) { return load_float(base + uint64_t(i) * float_bytes(dtype), dtype); }
void store_packed(uint64_t base, int dtype, uint i, float x) { store_float(base + uint64_t(i) * float_bytes(dtype), dtype, x); }

/// The address of item `i` of a shape in a view; a macro, since a function would copy the view.
#define ADDRESS(at, view, shape, i)                                                                \
  uint64_t at = (view).data;                                                                       \
  {                                                                                                \
    uint rest_ = (i);                                                                              \
    for (int d_ = (shape).rank - 1; d_ > 0; --d_) {                                                \
      const uint n_ = (shape).dims[d_], q_ = rest_ / n_;                                           \
      at += uint64_t((view).stride[d_] * int64_t(rest_ - q_ * n_));                                \
      rest_ = q_;                                                                                  \
    }                                                                                              \
    at += uint64_t((view).stride[0] * int64_t(rest_));                                             \
  }

/// Items that an invocation works on alone, and rows that a workgroup works on together.
#define FOR_EACH_ITEM(i, n) for (uint i = gl_GlobalInvocationID.x; i < (n); i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
#define FOR_EACH_ROW(row, n) for (uint row = gl_WorkGroupID.x; row < (n); row += gl_NumWorkGroups.x)
#define FOR_EACH_LANE(i, n) for (uint i = gl_LocalInvocationID.x; i < (n); i += gl_WorkGroupSize.x)

#define FAULT_INDEX_RANGE 1u
#define FAULT_NON_FINITE 2u
void raise(uint64_t faults, uint kind) { atomicOr(Uint(faults).v, kind); }

/// The predicate of a row: 0 has none.
bool row_live(uint64_t predicate, uint row) { return predicate == 0ul || Int(predicate + uint64_t(row) * 4ul).v != 0; }

/// An index of i32 or i64 as i32; -2, which is never in range, where it does not fit.
int load_index(uint64_t at, int dtype) {
  const int low = Int(at).v;
  if (dtype == I32) return low;
  const int high = Int(at + 4ul).v;
  return high == low >> 31 ? low : -2;
}
