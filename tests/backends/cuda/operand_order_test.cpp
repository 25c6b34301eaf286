// Operands whose columns are put in an order by what makes them (wide.cu, mixed.cuh, operand.cuh), over a card in plain C++ (emulated_card.hpp). Each is
// compared with what the same code makes without an order. And copies of weights that have their columns put back (weights.cu).
#include <mixed.cuh>
#include <weights.cu>
#include <wide.cu>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace quern::cuda {
namespace {

constexpr int k = 1024, rows = 3, columns = 8;

Address address(const auto& of) { return reinterpret_cast<Address>(of.data()); }

struct RandomOrder {
  std::vector<int> index, places;  // element j of an ordered row is element index[j], and element i is at places[i]
  RandomOrder() : index(k), places(k) {
    std::iota(index.begin(), index.end(), 0);
    std::ranges::shuffle(index, std::mt19937(7));
    for (int j = 0; j < k; ++j) places[static_cast<std::size_t>(index[static_cast<std::size_t>(j)])] = j;
  }
};

std::vector<float> numbers(int count) {
  std::mt19937 random(3);
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& f : made) f = static_cast<float>(static_cast<int>(random() % 255) - 127) / 32;
  return made;
}

/// Element e of row t of an operand of mixed.cu.
u16 element(const std::vector<char>& operand, int t, int e) {
  const char* block = operand.data() + operand_row(t, columns, k / 256) + (e >> 8) * columns * OPERAND_PITCH;
  return *reinterpret_cast<const u16*>(block + swizzled_chunk((e & 255) >> 3) + (e & 7) * 2);
}

/// `make` runs a kernel for an operand and an order, or none: that with the order has the same elements, each at its place, and no other bytes.
template <class Make>
void expect_ordered(const Make& make) {
  const RandomOrder order;
  const std::size_t bytes = static_cast<std::size_t>(k / 256) * columns * OPERAND_PITCH;
  alignas(16) std::vector<char> plain(bytes, 77), ordered(bytes, 77);
  make(address(plain), Address{0});
  make(address(ordered), address(order.places));
  int differs = 0;
  for (int t = 0; t < rows; ++t)
    for (int j = 0; j < k; ++j) {
      const int i = order.index[static_cast<std::size_t>(j)];
      ASSERT_EQ(element(ordered, t, j), element(plain, t, i)) << "row " << t << ", place " << j;
      differs += element(plain, t, i) != element(plain, t, j) ? 1 : 0;
    }
  EXPECT_GT(differs, k);  // an order that changes nothing would prove nothing
  for (int t = rows; t < columns; ++t)
    for (int j = 0; j < k; ++j) ASSERT_EQ(element(ordered, t, j), 77 * 257) << "row " << t << ", which is none";
}

TEST(CudaOperandOrder, NormsStoreTheirOperandInOrder) {
  const std::vector<float> x = numbers(rows * k), weight = numbers(k);
  for (const int half : {0, 1})
    expect_ordered([&](Address y, Address places) {
      run_emulated(norm16, rows, 1, Norm16Params{address(x), address(weight), y, k, half, 1e-5f, 0.0f, columns, 0, places, {}});
    });
}
TEST(CudaOperandOrder, NormsStoreOperandsInSeveralOrders) {
  const std::vector<float> x = numbers(rows * k), weight = numbers(k);
  for (const int which : {0, 1})
    expect_ordered([&](Address y, Address places) {
      std::vector<char> others(2 * static_cast<std::size_t>(k / 256) * columns * OPERAND_PITCH);
      Norm16Params p{address(x), address(weight), address(others), k, 1, 1e-5f, 0.0f, columns, 0, 0, {}};
      p.more[which] = {y, places};
      p.more[1 - which] = {address(others) + others.size() / 2, 0};
      run_emulated(norm16, rows, 1, p);
    });
}
TEST(CudaOperandOrder, RowsWithASumAndTheNextNormStoreTheirOperandInOrder) {
  const std::vector<float> x = numbers(rows * k), weight = numbers(k), added = numbers(rows * k);
  expect_ordered([&](Address y, Address places) {
    RowParams p{};
    p.x = address(x), p.weight = p.next_weight = address(weight), p.added = address(added);
    p.y16 = y, p.half = 1, p.columns = columns, p.places = places, p.h = k;
    run_emulated(norm_row, rows, 1, p);
  });
}
TEST(CudaOperandOrder, FloatsBecomeAnOperandInOrder) {
  const std::vector<float> x = numbers(rows * k);
  expect_ordered([&](Address y, Address places) { run_emulated(to16, 2, 1, To16Params{address(x), y, rows * k, 1, columns, k, places}); });
}
TEST(CudaOperandOrder, GatedActivationsAreStoredInOrder) {
  const std::vector<float> x = numbers(rows * 2 * k);
  expect_ordered([&](Address y, Address places) {
    run_emulated(glu16, 2, 1, Glu16Params{address(x), y, rows, k, 1, 1.0f, 0.0f, act_silu, columns, 0, places});
  });
}

/// As attention stores its heads: a lane an element.
struct HeadsParams {
  Address x, y, places;
};
void store_heads(HeadsParams p) {
  for (int i = static_cast<int>(threadIdx.x); i < k; i += 256)
    store_operand(at<char>(p.y) + operand_row(blockIdx.x, columns, k / 256), columns, i,
                  at<const float>(p.x)[static_cast<int>(blockIdx.x) * k + i], true, p.places);
}
TEST(CudaOperandOrder, HeadsAreStoredInOrder) {
  const std::vector<float> x = numbers(rows * k);
  expect_ordered([&](Address y, Address places) { run_emulated(store_heads, rows, 1, HeadsParams{address(x), y, places}); });
}

/// As products of gate and up store their sums: a warp has eight outputs of eight columns, a lane one output of two of them.
struct GatedParams {
  MixedParams of;
  Address x;
};
void store_sums(GatedParams p) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = warp * 8; first < k; first += 64) {
    const int output = first + lane / 4;
    float sums[4] = {};
    for (int i = 0; i < 2; ++i)
      if (const int column = 2 * (lane % 4) + i; column < rows) {
        const float* const row = at<const float>(p.x) + column * 2 * k;
        sums[i] = row[output], sums[i + 2] = row[k + output];
      }
    store_gated(p.of, p.of.glu_y, p.of.t, k - 1, output, 0, sums, p.of.glu_places);
  }
}
TEST(CudaOperandOrder, ProductsOfGateAndUpAreStoredInOrder) {
  const std::vector<float> x = numbers(rows * 2 * k);
  expect_ordered([&](Address y, Address places) {
    GatedParams p{};
    p.of.t = rows, p.of.columns = columns, p.of.alpha = p.of.glu_scale = 1, p.of.activation = act_silu, p.of.half = 1;
    p.of.glu_y = y, p.of.glu_places = places, p.x = address(x);
    run_emulated(store_sums, 1, 1, p);
  });
}

TEST(CudaOperandOrder, CopiesOfWeightsHaveColumnsWhereTheOperandHasThem) {
  const RandomOrder order;
  const std::vector<float> w = numbers(rows * k);
  Blocks blocks{};
  blocks.plane[0] = address(w);
  blocks.stride[0] = 64;
  blocks.dtype = F32;
  std::vector<u16> copy(static_cast<std::size_t>(rows * k), 1);
  run_emulated(unpack_in_order, rows, 1, OrderedUnpackParams{blocks, address(copy), address(order.index), rows, k});
  for (int n = 0; n < rows; ++n)
    for (int j = 0; j < k; ++j) {
      const std::size_t row = static_cast<std::size_t>(n * k);
      ASSERT_EQ(copy[row + static_cast<std::size_t>(order.index[static_cast<std::size_t>(j)])],
                to_bf16(w[row + static_cast<std::size_t>(j)]));
    }
}

}  // namespace
}  // namespace quern::cuda
