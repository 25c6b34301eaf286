// Attention of chain.comp: one row over paged keys, which it rotates and writes to the caches on its way, as attention_fused.comp. A workgroup takes a
// head, or a part of its keys where there are many. `key_lanes` lanes share a key, eight elements each, and a subgroup has several keys at once. Where
// keys lie, and those from before this step, is asked for before the row is waited for.
//
// With ALONE defined it is a launch of its own (attention_row.comp). Then values lie in memory as floats, and a workgroup may have several of the heads
// that share a key head. The last workgroup that has a part joins the parts.
#define MOST_PAGES 256  // of a part, that are looked up once for all subgroups; those behind them are looked up by each
const int steps_at_once = 2;
#ifndef ALONE
const int most_heads = 1;
uint heads_together() { return 1u; }
uint least_keys() { return 256u; }  // of a part
float of_head(float x, uint h) { return x; }
float sum_of_subgroups(float x) { return subgroupAdd(x); }
#endif

shared float found_most[most_subgroups], found_sum[most_subgroups];
shared vec4 new_query[most_heads * most_d / 4], new_key[most_d / 4], new_value[most_d / 4];
shared int page_at[MOST_PAGES];
shared uint fault;

// Of the attention stage that comes next, asked for while the stage before it is at work.
int key_position, key_slot;   // of the row
int key_page, new_page;       // the page of this lane, and that of the new key

struct Eight {
  vec4 v[2];
};
/// Eight neighbours as they lie in a cache.
struct PackedEight {
  uvec4 v[2];
};
PackedEight load_eight(uint64_t row, const int dtype, uint c) {
  PackedEight e;
  e.v[0] = words_at(row + uint64_t(c) * uint64_t(float_bytes(dtype)));
  if (dtype == F32) e.v[1] = words_at(row + uint64_t(c) * 4ul + 16ul);
  return e;
}
/// e^x of x <= 0, as exp_of; 0 below -87, what a sum of 1 and more does not see. Short: this code runs once a step and layer, from a cold cache.
float exp_below(float x) {
  const float n = floor(x * 1.44269504 + 0.5), r = (x - n * 0.693359375) + n * 2.12194440e-4;
  float e = 1.98412698e-4;
  e = e * r + 1.38888889e-3;
  e = e * r + 8.33333333e-3;
  e = e * r + 4.16666667e-2;
  e = e * r + 1.66666667e-1;
  e = e * r + 0.5;
  e = (e * r * r + r + 1.0) * uintBitsToFloat(uint(int(max(n, -126.0)) + 127) << 23);
  return is_nan(x) ? x : x < -87.0 ? 0.0 : e;
}
/// A product of words as 8 bytes: of numbers below 2^32 one multiplication does.
uint64_t wide(uint a, uint b) { return uint64_t(a) * uint64_t(b); }
Eight open_eight(PackedEight e, const int dtype) {
  Eight x;
  const uvec4 w = e.v[0];
  if (dtype == F32) {
    x.v[0] = uintBitsToFloat(e.v[0]);
    x.v[1] = uintBitsToFloat(e.v[1]);
  } else if (dtype == BF16) {
    x.v[0] = uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
    x.v[1] = uintBitsToFloat(uvec4(w.z << 16, w.z & 0xffff0000u, w.w << 16, w.w & 0xffff0000u));
  } else {
    x.v[0] = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    x.v[1] = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
  }
  return x;
}
float dot_of_eights(Eight a, Eight b) { return dot(a.v[0], b.v[0]) + dot(a.v[1], b.v[1]); }
/// As the cache holds it, and into the cache where `writes`.
float kept(uint64_t row, const int dtype, uint i, float x, bool writes) {
  if (dtype == F32) {
    if (writes) Float(row + uint64_t(i) * 4ul).v = x;
    return x;
  }
  const uint bits = dtype == F16 ? float_to_half(x) : float_to_bf16(x);
  if (writes) Short(row + uint64_t(i) * 2ul).v = uint16_t(bits);
  return dtype == F16 ? unpackHalf2x16(bits).x : bf16_to_float(bits);
}
float sum_of_key_lanes(float x) {
  for (uint d = 1u; d < uint(key_lanes); d *= 2u) x += subgroupShuffleXor(x, d);
  return x;
}

/// The row's queries of `heads` and their key rotated, key and value as the cache holds them, which the first head of those that share it writes.
void rotate(uint stamp, uint head, uint heads, uint kv_head, int position, bool inside, bool keeper) {
  const int page = new_page;
  const uint lane = gl_LocalInvocationID.x, pairs = attention_pairs(), d = attention_d(), dv = attention_dv(), units = d - pairs;
  const bool there = page >= 0 && page < attention_pages(), writes = keeper && there;
  const uint at = uint(max(position, 0) % page_positions);
  if (keeper && lane == 0u && (!inside || (!there && position != -1))) raise(p.faults, FAULT_INDEX_RANGE);
  const uint64_t to_key = attention_k_cache() + wide(kv_head, uint(attention_k_head())) + wide(uint(max(page, 0)), uint(attention_k_page())) + wide(at, uint(k_stride));
  const uint64_t to_value = attention_v_cache() + wide(kv_head, uint(attention_v_head())) + wide(uint(max(page, 0)), uint(attention_v_page())) + wide(at, uint(v_stride));
  // Units of the key, elements of the value, and units of the queries: `first` and `second` of a unit turn together.
  [[dont_unroll]] for (uint item = lane; item < (heads + 1u) * units + dv; item += gl_WorkGroupSize.x) {
    const bool key = item < units, value = !key && item < units + dv;
    const uint query = heads == 1u || key || value ? 0u : (item - units - dv) / units;
    const uint unit = key ? item : value ? item - units : item - units - dv - query * units;
    uint first = unit, second = unit;
    float cosine = 1.0, sine = 0.0;
    if (!value) {
      first = second = pairs + unit;
      if (unit < pairs) {
        first = attention_mode() == 0 ? 2u * unit : unit;
        second = attention_mode() == 0 ? 2u * unit + 1u : unit + pairs;
        if (inside) {
          const vec2 turn = FloatPair(attention_table() + uint64_t(int64_t(position) * attention_table_stride()) + uint64_t(unit) * 8ul).v;
          cosine = turn.x;
          sine = turn.y;
        }
      }
    }
    const uint from = value ? attention_v_word() + kv_head * dv : key ? attention_k_word() + kv_head * d : attention_q_word() + (head + query) * d;
    uvec2 found = look(from + first), other = look(from + second);
#ifndef ALONE
    for (uint looks = 0u; found.y != stamp || other.y != stamp; ++looks) {
      if (looks >= p.limit) {
        missing = 1u;
        break;
      }
      found = look(from + first);
      other = look(from + second);
    }
#endif
    float a = uintBitsToFloat(found.x), b = uintBitsToFloat(other.x);
    if (!value && unit < pairs) {
      const float turned = a * cosine - b * sine;
      b = a * sine + b * cosine;
      a = turned;
    }
    if (!inside && !value) a = b = 0.0;
    if (value) {
      new_value[first / 4u][first % 4u] = kept(to_value, v_dtype, first, a, writes);
    } else if (key) {
      new_key[first / 4u][first % 4u] = kept(to_key, k_dtype, first, a, writes);
      if (second != first) new_key[second / 4u][second % 4u] = kept(to_key, k_dtype, second, b, writes);
    } else {
      const uint at_query = query * uint(most_d / 4);
      new_query[at_query + first / 4u][first % 4u] = a;
      new_query[at_query + second / 4u][second % 4u] = b;
    }
  }
}

/// The keys that the row sees: the first, and behind the last; `wrong`: where its sequence or its position is out of range.
uvec2 seen_keys(out bool wrong) {
  const bool known = key_slot >= 0 && key_slot < attention_sequences();
  const uint room = uint(attention_pages_a_sequence()) * uint(page_positions);
  wrong = key_position < -1 || (key_position != -1 && !known);
  if (key_position < 0 || !known) return uvec2(0u);
  wrong = wrong || uint(key_position) >= room;
  const uint end = min(uint(key_position) + 1u, room), begin = attention_window() > 0l ? uint(max(0l, int64_t(key_position) - attention_window() + 1l)) : 0u;
  return uvec2(min(begin, end), end);
}

/// The keys of a part.
struct Keys {
  uint begin, end, first_page, parts;  // of the parts that have any
  bool wrong;
};
Keys keys_of(uint part) {
  Keys keys;
  const uvec2 seen = seen_keys(keys.wrong);
  const uint parts = attention_parts(), count = max(seen.y - seen.x, 1u), share = max(parts == 1u ? count : (count + parts - 1u) / parts, least_keys());
  keys.parts = share >= count ? 1u : (count + share - 1u) / share;
  keys.begin = seen.x + part * share;
  keys.end = min(keys.begin + share, seen.y);
  keys.first_page = keys.begin / uint(page_positions);
  return keys;
}
uint64_t page_table() { return attention_block_table() + uint64_t(max(key_slot, 0)) * uint64_t(attention_pages_a_sequence()) * 4ul; }

void look_up_position() {
  key_position = Int(attention_position()).v;
  key_slot = Int(attention_row_slot()).v;
}
void look_up_pages(uint head, uint part) {
  const Keys keys = keys_of(part);
  const uint page_size = uint(page_positions), mine = keys.first_page + gl_LocalInvocationID.x;
  key_page = new_page = -1;
  if (head >= attention_heads() || keys.begin >= keys.end) return;
  if (mine * page_size < keys.end) key_page = Int(page_table() + uint64_t(mine) * 4ul).v;
  if (key_position / page_positions < attention_pages_a_sequence()) new_page = Int(page_table() + uint64_t(key_position / page_positions) * 4ul).v;
}

/// One part of the keys of a head, or of several that share them.
void attend_part(uint s, uint run, uint head, uint part) {
  const uint group = gl_SubgroupID, groups = gl_NumSubgroups, keys_a_subgroup = subgroup_lanes / uint(key_lanes);
  const uint key_lane = lane_of_subgroup % uint(key_lanes), key_of_subgroup = lane_of_subgroup / uint(key_lanes), c = key_lane * 8u;
  const uint d = attention_d(), dv = attention_dv(), sharing = attention_heads() / attention_kv_heads(), kv_head = head / sharing, stamp = run + s;
  // Subgroups take the heads in turn, and those of a head its keys.
  const uint together = heads_together(), heads = together == 1u ? 1u : min(together, sharing - head % sharing), own_head = group % together;
  const uint page_size = uint(page_positions);
  const int position = key_position;
  const bool inside = position >= 0 && position < attention_positions();
  const Keys keys = keys_of(part);
  if (part >= keys.parts) return;
  const uint part_begin = keys.begin, part_end = keys.end, first_page = keys.first_page, used = keys.parts;
  const uint own_end = own_head < heads ? part_end : part_begin;
  const uint64_t table = page_table();
  {  // every page that is needed has to be there
    bool lacks = keys.wrong;
    if ((first_page + gl_LocalInvocationID.x) * page_size < part_end) {
      if (gl_LocalInvocationID.x < uint(MOST_PAGES)) page_at[gl_LocalInvocationID.x] = key_page;
      lacks = lacks || key_page < 0 || key_page >= attention_pages();
    }
    for (uint i = first_page + gl_LocalInvocationID.x + gl_WorkGroupSize.x; i * page_size < part_end; i += gl_WorkGroupSize.x) {
      const int at = Int(table + uint64_t(i) * 4ul).v;
      if (i - first_page < uint(MOST_PAGES)) page_at[i - first_page] = at;
      lacks = lacks || at < 0 || at >= attention_pages();
    }
    if (lacks) atomicOr(fault, 1u);
  }
  group_barrier();
  const bool good = fault == 0u;
  const uint round_keys = groups / together * keys_a_subgroup * uint(steps_at_once), mine = group / together * uint(steps_at_once) * keys_a_subgroup + key_of_subgroup;
  const uint k_page = uint(attention_k_page()), v_page = uint(attention_v_page());
  const uint64_t keys_at = attention_k_cache() + wide(kv_head, uint(attention_k_head())), values_at = attention_v_cache() + wide(kv_head, uint(attention_v_head()));
  PackedEight key[steps_at_once], value[steps_at_once];  // asked for a round before they are wanted, the first before the row is there
  Eight query, total;
  query.v = total.v = vec4[2](vec4(0.0), vec4(0.0));
  float most = -INFINITY, sum = 0.0;
  bool turned = false;
  [[dont_unroll]] for (uint first = part_begin;; first += round_keys) {
    PackedEight later_key[steps_at_once], later_value[steps_at_once];
    [[unroll]] for (int j = 0; j < steps_at_once; ++j) {
      const uint at_key = first + mine + uint(j) * keys_a_subgroup;
      later_key[j].v = later_value[j].v = uvec4[2](uvec4(0u), uvec4(0u));
      if (!good || at_key >= own_end || at_key == uint(position)) continue;  // the new one is not in the cache
      const uint in_table = at_key / page_size, at = at_key % page_size;
      int page = 0;
      if (in_table - first_page < uint(MOST_PAGES)) page = page_at[in_table - first_page];
      else page = Int(table + uint64_t(in_table) * 4ul).v;
      if (c < d) later_key[j] = load_eight(keys_at + wide(uint(page), k_page) + wide(at, uint(k_stride)), k_dtype, c);
      if (c < dv) later_value[j] = load_eight(values_at + wide(uint(page), v_page) + wide(at, uint(v_stride)), v_dtype, c);
    }
    if (!turned) {
      turned = true;
      rotate(stamp - 1u, head, heads, kv_head, position, inside, part == 0u && head % sharing == 0u);
      group_barrier();
      if (c < d) {
        const uint at_query = own_head * uint(most_d / 4) + c / 4u;
        query.v[0] = new_query[at_query] * attention_scale();
        query.v[1] = new_query[at_query + 1u] * attention_scale();
      }
    } else {
      float score[steps_at_once];
      float now = most;
      [[unroll]] for (int j = 0; j < steps_at_once; ++j) {
        const uint at_key = first - round_keys + mine + uint(j) * keys_a_subgroup;
        Eight k8 = open_eight(key[j], k_dtype);
        if (at_key == uint(position) && c < d) k8.v = vec4[2](new_key[c / 4u], new_key[c / 4u + 1u]);
        score[j] = sum_of_key_lanes(dot_of_eights(query, k8));
        if (has_softcap() && attention_softcap() > 0.0) score[j] = attention_softcap() * tanh_of(score[j] / attention_softcap());
        if (at_key >= own_end) score[j] = -INFINITY;
        now = larger_or_nan(now, score[j]);
      }
      for (uint l = uint(key_lanes); l < subgroup_lanes; l *= 2u) {
        const float there = subgroupShuffleXor(now, l);
        now = larger_or_nan(now, there);
      }
      const float shift = now == -INFINITY ? 0.0 : now, share = most == -INFINITY ? 0.0 : exp_below(most - shift);
      sum *= share;
      total.v[0] *= share;
      total.v[1] *= share;
      [[unroll]] for (int j = 0; j < steps_at_once; ++j) {
        const uint at_key = first - round_keys + mine + uint(j) * keys_a_subgroup;
        const float weight = score[j] == -INFINITY ? 0.0 : exp_below(score[j] - shift);
        sum += weight;
        if (weight == 0.0) continue;  // what is not seen is not loaded into arithmetic
        Eight v8 = open_eight(value[j], v_dtype);
        if (at_key == uint(position) && c < dv) v8.v = vec4[2](new_value[c / 4u], new_value[c / 4u + 1u]);
        total.v[0] += weight * v8.v[0];
        total.v[1] += weight * v8.v[1];
      }
      most = now;
      if (!good || first >= part_end) break;  // all subgroups at once: a barrier lies in this loop
    }
    key = later_key;
    value = later_value;
  }
  for (uint l = uint(key_lanes); l < subgroup_lanes; l *= 2u) {
    sum += subgroupShuffleXor(sum, l);
    [[unroll]] for (int h = 0; h < 2; ++h) {
      [[unroll]] for (int e = 0; e < 4; ++e) total.v[h][e] += subgroupShuffleXor(total.v[h][e], l);
    }
  }
  if (lane_of_subgroup == 0u) {
    found_most[group] = most;
    found_sum[group] = sum;
  }
  if (key_of_subgroup == 0u && c < dv) {
    pool[group * uint(most_d / 4) + c / 4u] = total.v[0];
    pool[group * uint(most_d / 4) + c / 4u + 1u] = total.v[1];
  }
  group_barrier();
  if (gl_LocalInvocationID.x == 0u) fault = 0u;  // everyone has looked
  // A lane a subgroup: what that found, and its share of its head.
  const bool has = lane_of_subgroup < groups;
  const float its_most = has ? found_most[lane_of_subgroup] : -INFINITY;
  float best = its_most;
  for (uint l = together; l < subgroup_lanes; l *= 2u) {
    const float there = subgroupShuffleXor(best, l);
    best = larger_or_nan(best, there);
  }
  const float its_share = its_most == -INFINITY ? 0.0 : exp_below(its_most - best), all = sum_of_subgroups(has ? its_share * found_sum[lane_of_subgroup] : 0.0);
#ifndef ALONE
  const uint part_words = dv + 2u, parts_word = attention_part_word() + head * attention_parts() * part_words;
#endif
  [[dont_unroll]] for (uint first = 0u; first < heads * dv; first += gl_WorkGroupSize.x) {
    const uint i = first + gl_LocalInvocationID.x, h = together == 1u ? 0u : min(i / dv, heads - 1u), element = i - h * dv;
    float v = 0.0;
    [[unroll]] for (uint k = 0u; k < uint(most_subgroups); ++k) {
      const uint g = k * together + h;
      if (k * together >= groups) continue;
      const float of_group = subgroupShuffle(its_share, g);
      if (of_group != 0.0 && element < dv) v += pool[g * uint(most_d / 4) + element / 4u][element % 4u] * of_group;
    }
    const float all_of_head = of_head(all, h);
    if (element >= dv) continue;
#ifndef ALONE
    if (part != 0u) {
      post(parts_word + part * part_words + i, v, stamp);
      continue;
    }
    float joined_most = best, joined = all_of_head;
    [[dont_unroll]] for (uint q = 1u; q < used; ++q) {  // in the order of the parts
      const uint from = parts_word + q * part_words;
      const float other_most = await(from + dv, stamp), other_sum = await(from + dv + 1u, stamp), other = await(from + i, stamp);
      const float above = larger_or_nan(joined_most, other_most);
      const float here = joined_most == -INFINITY ? 0.0 : exp_below(joined_most - above), there = other_most == -INFINITY ? 0.0 : exp_below(other_most - above);
      v = v * here + other * there;
      joined = joined * here + other_sum * there;
      joined_most = above;
    }
#else
    if (used > 1u) {
      keep_value(part, i, v);
      continue;
    }
    const float joined = all_of_head;
#endif
    v = !good || joined == 0.0 ? 0.0 : v / joined;
#ifndef ALONE
    if (blocks_out > 0) block_value[i / 4u][i % 4u] = v;
    if (attention_y_word() != CHAIN_NONE) post(attention_y_word() + head * dv + i, v, stamp);
#endif
    if (attention_y() != 0ul) Float(attention_y() + uint64_t(head * dv + i) * 4ul).v = v;
  }
#ifndef ALONE
  if (blocks_out > 0 && part == 0u) {
    group_barrier();
    for (uint b = gl_SubgroupID; b < dv / 16u; b += groups) {
      const uint block = head * (dv / 16u) + b;
      vec4 weight = vec4(1.0);
      if (p.next_other != 0ul) weight = Float4(p.next_other + uint64_t(block * 4u + (lane_of_subgroup & 3u)) * 16ul).v + p.next_offset;
      post_block(b, stage_y_block() + block * 4u, weight, stamp);
    }
  }
  if (part != 0u && gl_LocalInvocationID.x == 0u) {
    post(parts_word + part * part_words + dv, best, stamp);
    post(parts_word + part * part_words + dv + 1u, all, stamp);
  }
#else
  if (used > 1u) {
    if (group == 0u && lane_of_subgroup < heads) keep_sum(part, lane_of_subgroup, best, good ? all : MISSES);
    join_parts(part, head, heads, used);
  }
#endif
  if (!good && gl_LocalInvocationID.x == 0u && head == 0u) raise(p.faults, FAULT_INDEX_RANGE);
}

void attend(uint s, uint run) {
  const uint parts = attention_parts();
  for (uint item = gl_WorkGroupID.x; item < attention_heads() * parts; item += gl_NumWorkGroups.x) {
    if (item != gl_WorkGroupID.x) look_up_pages(item / parts, item % parts);
    attend_part(s, run, item / parts, item % parts);
    group_barrier();
  }
}
