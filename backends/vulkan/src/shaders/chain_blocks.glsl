// Rows of chain.comp that pass from stage to stage as int8: blocks of 16 neighbours with a scale, 32 bytes of the exchange each: three words of codes
// and a stamp; the fourth, the scale, the sum of the squares that a norm needs, and a stamp. A lane's 16 bytes are stored and seen as one. Whoever
// makes a block multiplies by the weight of the norm that comes next; the norm's factor multiplies sums, as elsewhere.
//
// A workgroup makes whole blocks: the subgroup that brings the last of its 16 values makes and posts it.

/// The weights of the norm behind this stage, for four elements of this workgroup's blocks.
vec4 weight_of_next(uint four) {
  if (blocks_out == 0 || four >= uint(block_fours) || p.next_other == 0ul) return vec4(1.0);
  const uint at = (gl_WorkGroupID.x + gl_NumWorkGroups.x * (four / 4u)) * 4u + four % 4u;
  return at < part_n(0u) / 4u ? Float4(p.next_other + uint64_t(at) * 16ul).v + p.next_offset : vec4(1.0);
}
/// Before the workgroup's barrier; `weight`: that of this lane's four.
void begin_blocks(vec4 weight) {
  if (blocks_out == 0) return;
  FOR_EACH_LANE(i, uint(block_fours)) {
    next_weight[i] = i == gl_LocalInvocationID.x ? weight : weight_of_next(i);
    block_count[i] = 0u;
  }
}

/// Block `slot` of this workgroup, whose values are there, to its place in the exchange; by a whole subgroup. `weight`: of each lane's four.
void post_block(uint slot, uint word, vec4 weight, uint stamp) {
  vec4 x = vec4(0.0);
  if (lane_of_subgroup < 4u) x = block_value[slot * 4u + lane_of_subgroup];
  float squares = dot(x, x);
  x *= weight;
  const uvec4 bits = floatBitsToUint(x) & 0x7fffffffu;
  uint most = max(max(bits.x, bits.y), max(bits.z, bits.w));
  [[unroll]] for (uint d = 1u; d < 4u; d *= 2u) {
    most = max(most, subgroupShuffleXor(most, d));
    squares += subgroupShuffleXor(squares, d);
  }
  const float size = uintBitsToFloat(most);
  const bool finite = most < 0x7f800000u;
  ivec4 code = ivec4(0);
  if (finite && size > 1e-36) code = clamp(ivec4(roundEven(x * (127.0 / size))), -127, 127);
  const uvec4 bytes = uvec4(code) & 255u;
  const uint codes = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
  const uint second = subgroupShuffleXor(codes, 1u), third = subgroupShuffleXor(codes, 2u);
  if (lane_of_subgroup == 0u) post_three(word, uvec3(codes, second, third), stamp);
  if (lane_of_subgroup == 3u) post_three(word + 2u, uvec3(codes, floatBitsToUint(finite ? size / 127.0 : NOT_A_NUMBER), floatBitsToUint(squares)), stamp);
}

/// A lane's output of a tile, `row` of the stage's; then the block, by the subgroup that brings its last.
void add_to_block(bool mine, uint slot, uint row, float value, uint stamp) {
  const uint i = row % 16u;
  uint before = 0u;
  if (mine) {
    block_value[slot * 4u + i / 4u][i % 4u] = value;
    before = atomicAdd(block_count[slot], 1u, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  }
  if (subgroupMax(before) != 15u) return;
  controlBarrier(gl_ScopeSubgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
  post_block(slot, stage_y_block() + (gl_WorkGroupID.x + gl_NumWorkGroups.x * slot) * 4u, next_weight[slot * 4u + (lane_of_subgroup & 3u)], stamp);
}

/// The stage's row, once it is there, in shared memory.
void take_row(uint s, uint run) {
  const uint lane = gl_LocalInvocationID.x, k = uint(widest), blocks = k / 16u, word = p.x_word, stamp = run + s - 1u;
  float squares = 0.0;
  for (uint first = 0u; first < blocks; first += 2u * uint(lanes_of_group)) {
    const uint i0 = first + lane, i1 = i0 + uint(lanes_of_group);
    uvec4 a[2], b[2];
    for (uint looks = 0u;; ++looks) {
      bool there = true;
      if (i0 < blocks) {
        a[0] = look_at_pair(word + 4u * i0);
        b[0] = look_at_pair(word + 4u * i0 + 2u);
      }
      if (i1 < blocks) {
        a[1] = look_at_pair(word + 4u * i1);
        b[1] = look_at_pair(word + 4u * i1 + 2u);
      }
      if (i0 < blocks) there = a[0].w == stamp && b[0].w == stamp;
      if (i1 < blocks) there = there && a[1].w == stamp && b[1].w == stamp;
      if (there) break;
      if (looks >= p.limit) {
        stalled = 1u;
        break;
      }
    }
    [[unroll]] for (uint e = 0u; e < 2u; ++e) {
      const uint i = e == 0u ? i0 : i1;
      if (i < blocks) {
        const uvec4 codes = uvec4(a[e].xyz, b[e].x);
        const float scale = uintBitsToFloat(b[e].y);
        const uint at = (i & 3u) * (k / 64u) + (i >> 2);
        group_code[at] = codes;
        group_scale[at] = vec2(scale, scale * float(dot16(uvec4(0x01010101u), codes)));
        squares += uintBitsToFloat(b[e].z);
      }
    }
  }
  if (kind != source_norm) return;
  squares = subgroupAdd(squares);
  if (lane_of_subgroup == 0u) group_part[gl_SubgroupID] = squares;
}
