// lora_matmul's kernels (lora.cu) over a card in plain C++ (emulated_card.hpp): what they compute, for every way to lie in memory, and that a row has
// the same bits alone, in a tile of rows of one adapter, and in one of several. And what adapters are in the products of one row (adapters.cuh).
#include <lora.cu>
#include <lora_rows.cu>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace quern::cuda {
namespace {

struct Shape2 {
  i64 k, n;
  int dtype;       // of x and the pool
  i64 gap;         // elements between adapters: of 3, nothing begins at a whole word
  bool scattered;  // elements of x lie two apart
};
constexpr int none = -1, stray = 7;
constexpr i64 ranks[] = {4, 16, 11};

/// A pool of three adapters, rows of x and base, and what the kernels made of them.
struct Adapted {
  std::vector<u16> pool16, x16;
  std::vector<float> pool, x, base, y, low;
  std::vector<int> table, slots;
  LoraParams p{};
  int fault = 0;

  Adapted(const Shape2& s, std::vector<int> rows_slots) : slots(std::move(rows_slots)) {
    std::mt19937 random(3);
    const auto number = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 8; };  // f16 and bf16 hold it
    i64 at = s.gap;
    for (const i64 rank : ranks) {
      const i64 b = at + rank * s.k + s.gap;
      for (const int word : {static_cast<int>(at), static_cast<int>(b), static_cast<int>(rank), std::bit_cast<int>(0.5f)})
        table.push_back(word);
      at = b + rank * s.n + s.gap;
    }
    const auto rows = static_cast<i64>(slots.size()), apart = s.scattered ? i64{2} : i64{1};
    pool.resize(at), x.resize(rows * s.k * apart), base.resize(rows * s.n), y.resize(rows * s.n, -77.0f);
    for (std::vector<float>* v : {&pool, &x, &base})
      for (float& f : *v) f = number();
    const auto narrow = [&](const std::vector<float>& from, std::vector<u16>& to) {
      for (const float f : from) to.push_back(s.dtype == F16 ? to_half(f) : to_bf16(f));
    };
    narrow(pool, pool16), narrow(x, x16);
    const bool wide = s.dtype == F32;
    const i64 bytes = wide ? 4 : 2;
    p.pool = reinterpret_cast<Address>(wide ? static_cast<void*>(pool.data()) : pool16.data());
    p.x = rows_at(wide ? static_cast<void*>(x.data()) : x16.data(), s.dtype, bytes * apart, s.k);
    p.base = rows_at(base.data(), F32, 4, s.n);
    p.y = rows_at(y.data(), F32, 4, s.n);
    p.slot = rows_at(slots.data(), 0, 4, 1);
    p.table = reinterpret_cast<Address>(table.data());
    p.pool_dtype = s.dtype;
    p.pool_count = at;
    p.slots = std::ssize(ranks);
    p.rows = p.end_row = rows;
    p.k = s.k, p.n = s.n;
    p.most_rank = 32;
    low.resize(rows * p.most_rank, std::numeric_limits<float>::quiet_NaN());  // nothing is read that was not written
    p.low = reinterpret_cast<Address>(low.data());
    p.alpha = 2;
    p.faults = reinterpret_cast<Address>(&fault);
  }
  static Operand rows_at(void* data, int dtype, i64 step, i64 length) {
    Operand o{};
    o.data = reinterpret_cast<Address>(data);
    o.dtype = dtype;
    o.step = step;
    o.strides[0] = step * length;
    return o;
  }
  void run(bool tiles) {
    const u32 rows = static_cast<u32>(slots.size()), columns = static_cast<u32>((p.n + 255) / 256);
    const auto tiles_of = [&](u32 size) { return (rows + size - 1) / size; };
    if (tiles) {
      run_emulated(lora_down_tile, 2, tiles_of(lora_down_rows), p);
      run_emulated(lora_up_tile, columns, tiles_of(lora_up_rows), p);
    } else {
      run_emulated(lora_down_row, 3, rows, p);
      run_emulated(lora_up_row, columns, rows, p);
    }
  }
  double wanted(const Shape2& s, i64 t, i64 n) const {
    const int slot = slots[t];
    if (slot == stray) return 0;
    double sum = base[t * s.n + n];
    if (slot == none) return sum;
    const int* row = &table[slot * 4];
    for (i64 r = 0; r < row[2]; ++r) {
      double h = 0;
      for (i64 i = 0; i < s.k; ++i)
        h += static_cast<double>(pool[row[0] + r * s.k + i]) * static_cast<double>(x[(t * s.k + i) * (s.scattered ? 2 : 1)]);
      sum += h * static_cast<double>(pool[row[1] + n * row[2] + r]);
    }
    return sum;  // alpha times scale is 1
  }
  /// The sum of the sizes of what B multiplies.
  double size(const Shape2& s, i64 t, i64 n) const {
    const int* row = &table[slots[t] * 4];
    double sum = 0;
    for (i64 r = 0; r < row[2]; ++r) {
      double h = 0;
      for (i64 i = 0; i < s.k; ++i) h += static_cast<double>(pool[row[0] + r * s.k + i]) * static_cast<double>(x[t * s.k + i]);
      sum += std::fabs(h * static_cast<double>(pool[row[1] + n * row[2] + r]));
    }
    return sum;
  }
};

/// Numbers are eighths and sums of their products exact in f32, so results are exact, whatever the order.
void expect_exact(const Shape2& s, const std::vector<int>& slots) {
  SCOPED_TRACE(testing::Message() << "k " << s.k << ", n " << s.n << ", dtype " << s.dtype << ", gap " << s.gap << ", rows "
                                  << slots.size());
  for (const bool tiles : {false, true}) {
    Adapted a(s, slots);
    a.run(tiles);
    for (i64 t = 0; t < std::ssize(slots); ++t)
      for (i64 n = 0; n < s.n; ++n)
        ASSERT_EQ(a.y[t * s.n + n], a.wanted(s, t, n)) << "row " << t << ", output " << n << ", tiles " << tiles;
    EXPECT_EQ(a.fault != 0, std::ranges::count(slots, stray) > 0);
  }
}

TEST(CudaLora, RowsHaveTheirAdaptersInAnyLayout) {
  const std::vector<int> of_one(9, 1), mixed = {0, 1, 2, none, 1, 1, 1, 1, 2, stray, 0};
  for (const int dtype : {F32, F16, BF16}) {
    expect_exact({64, 40, dtype, 8, false}, of_one);
    expect_exact({64, 40, dtype, 8, false}, mixed);
    expect_exact({67, 9, dtype, 3, false}, mixed);
  }
  expect_exact({40, 260, F16, 8, true}, {2, 2, 2});
  expect_exact({5, 1, F32, 3, false}, {none});
}

/// Products of one row with adapters (adapters.cuh): what a block makes of low, and what a warp adds to the dot products of two outputs.
struct ProductParams {
  Adapters q;
  int k, outputs;
  Address y;  // f32 [3][outputs]
};
void make_low_of_row(ProductParams p) {
  static AdaptersShared s;
  FirstRank<256> first;
  const int thread = static_cast<int>(threadIdx.x);
  find_adapters(p.q, s, p.k, thread);
  __syncthreads();
  first.ask(p.q, s, p.k, thread);
  make_low(p.q, s, first, p.k, thread, [] { __syncthreads(); });
}
void add_low_to_row(ProductParams p) {
  static AdaptersShared s;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  find_adapters(p.q, s, p.k, thread);
  __syncthreads();
  if (warp == 0) take_low(p.q, s, lane);
  __syncthreads();  // here threads that wait without it would take all processors
  wait_for_low(s);
  for (int part = 0; part < 3; ++part)
    for (int output = static_cast<int>(blockIdx.x) * 8 + warp; output < p.outputs; output += static_cast<int>(gridDim.x) * 8) {
      const float y = warp_sum(times_low(p.q, s, part, output, lane, row_of_b(p.q, s, part, output, lane)));
      if (lane == 0) at<float>(p.y)[part * p.outputs + output] = y;
    }
  leave_words(p.q, s, 8, lane);
}

/// A row of three products of one operand, each with a pool of its own, the last without adapters.
struct AdaptedRow {
  std::vector<Adapted> parts;
  std::vector<float> weight, y;
  std::vector<u64> words;
  ProductParams p{};
  int fault = 0;
  u32 count = 0;

  AdaptedRow(const Shape2& s, int slot) {
    parts.reserve(2);
    for (int part = 0; part < 2; ++part) parts.emplace_back(s, std::vector{part == 0 ? slot : 1});
    p.k = static_cast<int>(s.k), p.outputs = static_cast<int>(s.n);
    for (int i = 0; i < p.k; ++i) weight.push_back(static_cast<float>(i % 5 - 2) / 2);
    y.assign(3 * s.n, -77.0f), words.assign(3 * 32, 0);
    for (int part = 0; part < 2; ++part) {
      const LoraParams& of = parts[part].p;
      p.q.part[part] = {at_of(parts[part], s), of.table, at_of(parts[part].slots), of.pool_dtype, of.pool_count, of.slots, 0, s.n, 2};
    }
    p.q.x = at_of(parts[0].x), p.q.weight = at_of(weight), p.q.offset = 1;
    p.q.words = at_of(words), p.q.count = reinterpret_cast<Address>(&count), p.q.most_rank = 32;
    p.q.faults = reinterpret_cast<Address>(&fault);
    p.y = at_of(y);
  }
  template <class T>
  static Address at_of(std::vector<T>& of) {
    return reinterpret_cast<Address>(of.data());
  }
  static Address at_of(Adapted& part, const Shape2& s) { return s.dtype == F32 ? at_of(part.pool) : at_of(part.pool16); }
  void run(u32 blocks) {
    run_emulated(make_low_of_row, blocks, 1, p);
    run_emulated(add_low_to_row, 2, 1, p);
  }
  double wanted(const Shape2& s, int part, i64 n) const {
    if (part == 2 || parts[part].slots[0] == none || parts[part].slots[0] == stray) return 0;
    const Adapted& of = parts[part];
    const int* row = &of.table[of.slots[0] * 4];
    double sum = 0;
    for (i64 r = 0; r < row[2]; ++r) {
      double low = 0;
      for (i64 i = 0; i < s.k; ++i)
        low += static_cast<double>(of.pool[row[0] + r * s.k + i]) * static_cast<double>(parts[0].x[i] * (weight[i] + 1));
      sum += low * static_cast<double>(of.pool[row[1] + n * row[2] + r]);
    }
    return sum;
  }
};

TEST(CudaLora, ProductsOfOneRowAddWhatTheirBlocksMake) {
  for (const int slot : {0, 1, 2, none, stray})
    for (const Shape2& s : {Shape2{64, 40, F32, 4, false}, Shape2{2052, 9, F16, 3, false}, Shape2{64, 33, BF16, 3, false}}) {
      SCOPED_TRACE(testing::Message() << "slot " << slot << ", k " << s.k << ", dtype " << s.dtype);
      AdaptedRow row(s, slot);
      row.run(slot == 2 ? 32 : 3);  // more blocks than ranks, or several ranks a block
      for (int part = 0; part < 3; ++part)
        for (i64 n = 0; n < s.n; ++n) ASSERT_EQ(row.y[part * s.n + n], row.wanted(s, part, n)) << "part " << part << ", output " << n;
      EXPECT_EQ(row.fault != 0, slot == stray);
      EXPECT_EQ(row.count, 0u);
      EXPECT_EQ(row.words, std::vector<u64>(row.words.size())) << "they stay zeros for the next step";
    }
}

/// Rows of two products of one operand, the first without adapters, side by side: of f32, or of f16 and 16 times smaller.
struct AdaptedTile {
  Adapted of;
  std::vector<float> y, low;
  std::vector<u16> y16, operand;
  AdaptedRows p{};
  static constexpr i64 other = 8;  // outputs of the first product

  AdaptedTile(const Shape2& s, std::vector<int> slots, bool half_results, int columns) : of(s, std::move(slots)) {
    const LoraParams& from = of.p;
    const i64 rows = from.rows, width = other + s.n;
    p.part[1] = {from.pool, from.table, from.slot.data, from.pool_dtype, from.pool_count, from.slots, 0, s.n, from.alpha};
    p.slot_step[1] = 4;
    p.half = s.dtype == F16, p.columns = columns, p.k = s.k, p.t = rows, p.x_scale = 1;
    p.x = reinterpret_cast<Address>(of.x16.data());
    if (columns != 0) {
      operand.assign(static_cast<std::size_t>(columns * OPERAND_PITCH / 2 * s.k / 256), 0x7fff);  // NaN between rows
      for (i64 t = 0; t < rows; ++t)
        for (i64 i = 0; i < s.k; ++i)
          operand[(operand_row(t, columns, s.k / 256) + i / 256 * columns * OPERAND_PITCH + swizzled_chunk(static_cast<int>(i % 256 / 8))) /
                      2 +
                  i % 8] = of.x16[t * s.k + i];
      p.x = reinterpret_cast<Address>(operand.data());
    }
    p.pitch = 20;
    low.assign(2 * rows * p.pitch, std::numeric_limits<float>::quiet_NaN());
    p.low = reinterpret_cast<Address>(low.data());
    for (i64 t = 0; t < rows; ++t)
      for (i64 n = 0; n < width; ++n) y.push_back(n < other ? 5.0f : of.base[t * s.n + n - other]);
    for (const float f : y) y16.push_back(to_half(f / 16));
    p.y = half_results ? reinterpret_cast<Address>(y16.data()) : reinterpret_cast<Address>(y.data());
    p.y16 = half_results, p.y_row = width, p.y_first[1] = other, p.y_scale = half_results ? 1.0f / 16 : 1.0f;
    p.faults = reinterpret_cast<Address>(&of.fault);
  }
  void run() {
    const u32 tiles = static_cast<u32>((p.t + lora_tile_rows - 1) / lora_tile_rows);
    run_emulated(adapters_down, 1, tiles, p, 256, 2);
    run_emulated(adapters_up, static_cast<u32>((p.part[1].rows + lora_up_columns - 1) / lora_up_columns), tiles, p, 256, 2);
  }
};

/// TF32 holds A, B and x here. Each number that A makes is rounded to 11 bits, so is off by 2^-11 of itself; f16 results are too, at last.
void expect_rows(const Shape2& s, const std::vector<int>& slots, bool half_results, int columns) {
  SCOPED_TRACE(testing::Message() << "k " << s.k << ", n " << s.n << ", dtype " << s.dtype << ", columns " << columns);
  AdaptedTile tile(s, slots, half_results, columns);
  tile.run();
  for (i64 t = 0; t < std::ssize(slots); ++t)
    for (i64 n = -AdaptedTile::other; n < s.n; ++n) {
      const i64 at = t * tile.p.y_row + AdaptedTile::other + n;
      const double y = half_results ? 16.0 * static_cast<double>(from_half(tile.y16[at])) : static_cast<double>(tile.y[at]);
      if (n < 0 || slots[t] < 0 || slots[t] == stray) {
        ASSERT_EQ(y, n < 0 ? 5.0 : static_cast<double>(tile.of.base[t * s.n + n])) << "row " << t << ", output " << n;
        continue;
      }
      const double wanted = tile.of.wanted(s, t, n),
                   bound = tile.of.size(s, t, n) / 2048 + (half_results ? std::fabs(wanted) / 1024 : 1e-5);
      ASSERT_NEAR(y, wanted, bound) << "row " << t << ", output " << n;
    }
  EXPECT_EQ(tile.of.fault != 0, std::ranges::count(slots, stray) > 0);
}

TEST(CudaLora, ProductsOfManyRowsAddWhatTheAdaptersOfTheirRowsGive) {
  std::vector<int> mixed = {0, 1, 2, none, 1, 1, 1, 1, 2, stray, 0, 1, 1, 2, 2, 2, none, 1};
  expect_rows({80, 40, F16, 8, false}, mixed, false, 0);
  expect_rows({80, 520, BF16, 3, false}, {1, 1, 1}, true, 0);
  expect_rows({512, 24, F16, 8, false}, {1, 2, 1, none, 0, 0, 1}, false, 8);
}

TEST(CudaLora, ARowHasTheSameBitsAloneAndInATile) {
  const Shape2 s{2100, 24, F16, 8, false};
  const std::vector<int> slots = {1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
  Adapted rows(s, slots), tiles(s, slots);
  for (Adapted* a : {&rows, &tiles})
    for (std::size_t i = 0; i < a->x16.size(); ++i) a->x16[i] = to_half(std::sin(static_cast<float>(i)));  // sums that are rounded
  rows.run(false), tiles.run(true);
  EXPECT_EQ(rows.y, tiles.y);
}

}  // namespace
}  // namespace quern::cuda
