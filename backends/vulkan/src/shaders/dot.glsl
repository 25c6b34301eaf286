// Sums of four products of signed bytes: OpSDot of two words of PackedVectorFormat4x8Bit (0), under the capabilities DotProduct and
// DotProductInput4x8BitPacked. The compiler has no name for it.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int packing);
int dot16(uvec4 a, uvec4 b) { return packed_dot(a.x, b.x, 0) + packed_dot(a.y, b.y, 0) + packed_dot(a.z, b.z, 0) + packed_dot(a.w, b.w, 0); }
