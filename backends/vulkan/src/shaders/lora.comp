#version 460
// Adapters out of a pool, each row of x with that of its slot: (offset of A, offset of B, rank, bits of scale) in a table. Constant 1:
//   0 h = A x for each row and rank, an invocation each        1 y = base + scale B h, an invocation an element
//   2 g = B^T dy, as 0      3 dx = scale A^T g                 4 dpool, an invocation an element of the pool, through all slots in order
//   5 y = w + alpha b a (lora_merge): x is w, base is a, y is b
// Slot -1 copies base, or gives zeros; a slot or an adapter out of range gives zeros and raises INDEX_RANGE.
#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "modes.h"
layout(constant_id = 1) const int op = 0;
STORED(LoraParams)
#define p (ParamsAt(stored).params)

struct Adapter {
  uint a, b, rank;  // in elements of the pool
  float scale;
};
int slot_of(uint t) { return Int(p.slot + uint64_t(int64_t(t) * int64_t(p.slot_step))).v; }

/// False where the slot, or what its row says, is out of range.
bool read_adapter(int slot, out Adapter adapter) {
  adapter = Adapter(0u, 0u, 0u, 0.0);
  if (slot < 0 || slot >= p.slots) return false;
  const uint64_t row = p.table + uint64_t(slot) * 16ul;
  const int a = Int(row).v, b = Int(row + 4ul).v, rank = Int(row + 8ul).v;
  if (a < 0 || b < 0 || rank < 0 || uint(a) > p.pool_size || uint(b) > p.pool_size) return false;
  if (rank > 0 && (p.k > (p.pool_size - uint(a)) / uint(rank) || p.n > (p.pool_size - uint(b)) / uint(rank))) return false;
  adapter = Adapter(uint(a), uint(b), uint(rank), p.alpha * Float(row + 12ul).v);
  return true;
}
float pool_at(uint i) { return load_packed(p.pool, p.pool_dtype, i); }
float x_at(uint t, uint i) { return load_float(p.x.data + uint64_t(int64_t(t) * p.x.stride[0] + int64_t(i) * p.x.stride[1]), p.x.dtype); }
float dy_at(uint t, uint i) { return load_float(p.y.data + uint64_t(int64_t(t) * p.y.stride[0] + int64_t(i) * p.y.stride[1]), p.y.dtype); }
uint64_t low_at(uint64_t base, uint t, uint r) { return base + (uint64_t(t) * uint64_t(p.most_rank) + uint64_t(r)) * 4ul; }

void make_low() {
  FOR_EACH_ITEM(item, p.rows * p.most_rank) {
    const uint t = item / p.most_rank, r = item % p.most_rank;
    Adapter adapter;
    if (!read_adapter(slot_of(t), adapter) || r >= adapter.rank) continue;
    float total = 0.0;
    const uint count = op == lora_h ? p.k : p.n;
    for (uint begin = 0u; begin < count; begin += 64u) {
      float sum = 0.0;
      for (uint i = begin; i < min(count, begin + 64u); ++i)
        sum = op == lora_h ? fma(pool_at(adapter.a + r * p.k + i), x_at(t, i), sum) : fma(pool_at(adapter.b + i * adapter.rank + r), dy_at(t, i), sum);
      total += sum;
    }
    Float(low_at(op == lora_h ? p.h : p.g, t, r)).v = total;
  }
}

void make_rows() {
  const uint width = op == lora_y ? p.n : p.k;
  FOR_EACH_ITEM(item, p.rows * width) {
    const uint t = item / width, c = item % width;
    if (!row_live(p.predicate, t)) continue;
    const int slot = slot_of(t);
    Adapter adapter;
    const bool there = read_adapter(slot, adapter);
    if (!there && slot != -1 && c == 0u) raise(p.faults, FAULT_INDEX_RANGE);
    float sum = 0.0;
    if (there)
      for (uint r = 0u; r < adapter.rank; ++r)
        sum = op == lora_y ? fma(pool_at(adapter.b + c * adapter.rank + r), Float(low_at(p.h, t, r)).v, sum)
                      : fma(pool_at(adapter.a + r * p.k + c), Float(low_at(p.g, t, r)).v, sum);
    sum *= adapter.scale;
    const uint64_t to = p.out_.data + uint64_t(int64_t(t) * p.out_.stride[0] + int64_t(c) * p.out_.stride[1]);
    if (op == lora_y && p.base.data != 0ul && (there || slot == -1)) {
      const uint64_t from = p.base.data + uint64_t(int64_t(t) * p.base.stride[0] + int64_t(c) * p.base.stride[1]);
      if (slot == -1) {  // bit for bit
        if (p.out_.dtype == F32) Uint(to).v = Uint(from).v;
        else Short(to).v = Short(from).v;
        continue;
      }
      sum += load_float(from, p.base.dtype);
    }
    store_float(to, p.out_.dtype, sum);
  }
}

void make_pool() {
  FOR_EACH_ITEM(e, p.pool_size) {
    const uint64_t at = p.out_.data + uint64_t(int64_t(e) * p.out_.stride[0]);
    float total = p.accumulate != 0 ? load_float(at, p.out_.dtype) : 0.0;
    for (int slot = 0; slot < p.slots; ++slot) {
      Adapter adapter;
      if (!read_adapter(slot, adapter)) continue;
      const bool in_a = e >= adapter.a && e - adapter.a < adapter.rank * p.k, in_b = e >= adapter.b && e - adapter.b < adapter.rank * p.n;
      if (!in_a && !in_b) continue;
      for (uint begin = 0u; begin < p.rows; begin += 64u) {
        float sum = 0.0;
        for (uint t = begin; t < min(p.rows, begin + 64u); ++t) {
          if (slot_of(t) != slot || !row_live(p.predicate, t)) continue;
          if (in_a) sum = fma(Float(low_at(p.g, t, (e - adapter.a) / p.k)).v, x_at(t, (e - adapter.a) % p.k), sum);
          if (in_b) sum = fma(Float(low_at(p.h, t, (e - adapter.b) % adapter.rank)).v, dy_at(t, (e - adapter.b) / adapter.rank), sum);
        }
        total += sum * adapter.scale;
      }
    }
    store_float(at, p.out_.dtype, total);
  }
}

void merge() {
  FOR_EACH_ITEM(item, p.rows * p.k) {
    const uint row = item / p.k, c = item % p.k;
    float sum = 0.0;
    for (uint r = 0u; r < p.most_rank; ++r)
      sum = fma(load_float(p.base.data + uint64_t(int64_t(r) * p.base.stride[0] + int64_t(c) * p.base.stride[1]), p.base.dtype), dy_at(row, r), sum);
    store_float(p.out_.data + uint64_t(int64_t(row) * p.out_.stride[0] + int64_t(c) * p.out_.stride[1]), p.out_.dtype, x_at(row, c) + p.alpha * sum);
  }
}

void main() {
  if (op == lora_h || op == lora_g) make_low();
  else if (op == lora_y || op == lora_dx) make_rows();
  else if (op == lora_pool) make_pool();
  else merge();
}
