// The probe's proof on a card, against integers known in advance: weights decoded from their blocks; and small products in f32 and of
// int8 where their kernels are built in, since compiling these takes longer than a probe has.
#include "backend.hpp"
#include "ops/matmul.hpp"

#include <cmath>

namespace quern::cuda {
namespace {

constexpr int k = 64, n = 32;

}  // namespace

std::string self_test(Gpu& gpu) {
  std::vector<float> x(k), w(n * k), y(2 * n, -1.0f);
  for (int i = 0; i < k; ++i) x[i] = static_cast<float>(i * 7 % 13 - 6);
  for (int i = 0; i < n * k; ++i) w[i] = static_cast<float>(i * 5 % 17 - 8);
  // The same weights as q8_0 in planes: scales of 1, then codes.
  constexpr std::size_t codes_at = 256;
  static_assert(n * k / 32 * 2 <= codes_at);
  std::vector<unsigned char> blocks(codes_at + n * k);
  for (int b = 0; b < n * k / 32; ++b) blocks[b * 2 + 1] = 0x3c;  // f16 1.0
  for (int i = 0; i < n * k; ++i) blocks[codes_at + i] = static_cast<unsigned char>(static_cast<signed char>(w[i]));
  Lane lane(gpu);
  const auto take = [&gpu](std::uint64_t bytes) { return Memory(gpu, bytes, "the self-test"); };
  const Memory dx = take(k * 4), dw = take(n * k * 4), db = take(blocks.size()), dy = take(2 * n * 4), da = take(activation_bytes(k));
  const Driver& driver = gpu.driver();
  const auto up = [&](Address to, const void* from, std::size_t bytes) {
    driver.check(driver.cuMemcpyHtoDAsync_v2(to, from, bytes, lane.stream()), "the self-test");
  };
  up(dx.address(), x.data(), x.size() * 4);
  up(db.address(), blocks.data(), blocks.size());
  up(dy.address(), y.data(), y.size() * 4);
  const auto matrix = [](Address at, quern_dtype dtype) {
    Tensor t;
    t.data = at;
    t.dtype = dtype;
    t.rank = 2;
    t.dims[0] = n;
    t.dims[1] = k;
    t.packed_layout = dtype == QUERN_Q8_0;
    return blocks_of(t);
  };
  Launcher launcher(lane, false, lane.slot());
  const UnpackParams unpack{matrix(db.address(), QUERN_Q8_0), dw.address(), QUERN_F32, n, k, 0, k};
  std::vector<float> decoded(n * k, -1.0f);
  up(dw.address(), decoded.data(), decoded.size() * 4);
  launcher.launch(kernels::unpack_rows, launcher.spread(n * k / 16), 256, unpack);
  driver.check(driver.cuMemcpyDtoHAsync_v2(decoded.data(), dw.address(), decoded.size() * 4, lane.stream()), "the self-test");
  lane.synchronize("the self-test");
  for (int i = 0; i < n * k; ++i)
    if (decoded[i] != w[i]) return concat("element ", i, " of a q8_0 matrix is decoded as ", decoded[i], " and should be ", w[i]);
  if (!gpu.kernels().has(kernels::gemv_1)) return {};
  GemvExactParams exact{};
  exact.w = matrix(dw.address(), QUERN_F32);
  exact.x = dx.address();
  exact.y = dy.address();
  exact.x_dtype = exact.y_dtype = QUERN_F32;
  exact.rows = n;
  exact.k = k;
  exact.t = 1;
  exact.alpha = 1;
  exact.ways = 1;
  launcher.launch(kernels::gemv_exact_1, {n / 8, 1, 1}, 256, exact);
  const Activations activations = activations_at(da.address(), k, false);
  launch_quantise(dx.address(), 0, 0, 1, k, activations, launcher);
  GemvParams fast{};
  fast.part[0] = {matrix(db.address(), QUERN_Q8_0), dy.address() + n * 4, 0, n};
  fast.parts = 1;
  fast.k = k;
  fast.t = 1;
  fast.x = activations;
  launch_gemv(fast, false, launcher);
  driver.check(driver.cuMemcpyDtoHAsync_v2(y.data(), dy.address(), y.size() * 4, lane.stream()), "the self-test");
  lane.synchronize("the self-test");
  for (int row = 0; row < n; ++row) {
    float expected = 0, size = 0;
    for (int i = 0; i < k; ++i) {
      expected += x[i] * w[row * k + i];
      size += std::fabs(w[row * k + i]);
    }
    if (y[row] != expected) return concat("the f32 product of row ", row, " is ", y[row], " and should be ", expected);
    // int8 activations are off by half a step of 6 / 127 at most, times the weights.
    if (!(std::fabs(y[n + row] - expected) <= 0.5f * 6.0f / 127.0f * size * 1.01f))
      return concat("the int8 product of row ", row, " is ", y[n + row], " and should be near ", expected);
  }
  return {};
}

}  // namespace quern::cuda
