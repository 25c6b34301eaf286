// The exchange of chain.comp: words of 8 bytes, a value and the number of the run and stage that wrote it.
layout(buffer_reference, std430, buffer_reference_align = 8) volatile devicecoherent buffer WordAt { uvec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) volatile devicecoherent buffer WordPairAt { uvec4 v; };

uint subgroup_lanes, lane_of_subgroup;

uvec2 look(uint word) { return WordAt(p.exchange + uint64_t(word) * 8ul).v; }
uvec4 look_at_pair(uint word) { return WordPairAt(p.exchange + uint64_t(word) * 8ul).v; }  // word is even
void post(uint word, float value, uint stamp) { WordAt(p.exchange + uint64_t(word) * 8ul).v = uvec2(floatBitsToUint(value), stamp); }
void post_pair(uint word, vec2 values, uint stamp) {
  WordPairAt(p.exchange + uint64_t(word) * 8ul).v = uvec4(floatBitsToUint(values.x), stamp, floatBitsToUint(values.y), stamp);
}

void post_three(uint word, uvec3 values, uint stamp) { WordPairAt(p.exchange + uint64_t(word) * 8ul).v = uvec4(values, stamp); }  // word is even

/// A value once it is there; for those who write `stalled` no more in this stage.
float await(uint word, uint stamp) {
  uvec2 found = look(word);
  for (uint looks = 0u; found.y != stamp; ++looks) {
    if (looks >= p.limit) {
      missing = 1u;
      break;
    }
    found = look(word);
  }
  return uintBitsToFloat(found.x);
}
/// What was looked for before, or once it is there.
float await_found(uvec2 found, uint word, uint stamp) { return found.y == stamp ? uintBitsToFloat(found.x) : await(word, stamp); }
