// Rows of f32: norms, sums, conversions; and the table of this instruction set.
#include "blocks.hpp"
#include "row_loops.hpp"
#include "vectors.hpp"

namespace quern::cpu::QUERN_CPU_ISA {

void matmul(const MatmulPart& part) noexcept;          // matmul.cpp
void attention(const AttentionBlock& block) noexcept;  // attention.cpp
void attention_scores(const AttentionScores& part) noexcept;
void turn_keys(const float* keys, std::int64_t first, std::int64_t end, std::int64_t depth, float* turned) noexcept;
void accumulate(const AccumulatePart& part) noexcept;  // accumulate.cpp
void adamw(const AdamwRow& row) noexcept;              // adamw.cpp
void pack_panel(const GemmPanel& panel) noexcept;      // gemm.cpp
void gemm(const GemmPart& part) noexcept;
void silu(const float* x, std::int64_t n, float* y) noexcept;  // activations.cpp, with what follows
void activate(Activation activation, const float* x, std::int64_t n, float* y) noexcept;
void glu(const GluRow& row) noexcept;
void softcap(const float* x, float cap, std::int64_t n, float* y) noexcept;
float dot(const float* a, const float* b, std::int64_t n) noexcept;  // gradients.cpp, with what follows
void combine(const float* x, float a, const float* y, float b, std::int64_t n, float* out) noexcept;
void softmax_backward(const float* y, const float* dy, float shift, float scale, std::int64_t n, float* dx) noexcept;
void silu_backward(const float* x, const float* dy, std::int64_t n, float* dx) noexcept;
void silu_mul_backward(const float* gate, const float* up, const float* dy, std::int64_t n, float* dgate, float* dup) noexcept;
float exp_sum(const float* x, float shift, std::int64_t n, float* y) noexcept;

namespace {

void to_floats(quern_dtype dtype, const std::byte* from, std::int64_t count, float* out) noexcept {
  with_row(dtype, [&](auto row) {
    using Row = decltype(row);
    const auto* bytes = reinterpret_cast<const Byte*>(from);
    std::int64_t i = 0;
    Lanes low, high;
    for (; i + 32 <= count; i += 32) {
      Row::decode(bytes, i / 32, low, high);
      store(out + i, low);
      store(out + i + 16, high);
    }
    if (i < count) {
      const int n = static_cast<int>(count - i);
      decode_tail<Row>(bytes, i / 32, n, low, high);
      store_some(out + i, low, n < 16 ? n : 16);
      if (n > 16) store_some(out + i + 16, high, n - 16);
    }
  });
}

void from_floats(quern_dtype dtype, const float* from, std::int64_t count, std::byte* out) noexcept {
  auto* bytes = reinterpret_cast<Byte*>(out);
  std::int64_t i = 0;
  if (dtype == QUERN_F32) {
    __builtin_memcpy(bytes, from, static_cast<std::size_t>(count) * 4);
    return;
  }
  if (dtype == QUERN_F16)
    for (; i + 16 <= count; i += 16) store_halves(bytes + 2 * i, from + i);
  for (; i < count; ++i) {
    const std::uint16_t h = dtype == QUERN_F16 ? float_to_half(from[i]) : float_to_bfloat(from[i]);
    __builtin_memcpy(bytes + 2 * i, &h, 2);
  }
}

void rms_norm(const float* x, const float* weight, float offset, float epsilon, std::int64_t n, float* y) noexcept {
  const float squares = blocked_sum(
      n, [&](std::int64_t i, int count, Lanes s) __attribute__((always_inline)) {
        const Lanes v = load_some(x + i, count);
        return fma(v, v, s);
      });
  const float root = __builtin_sqrtf(squares / static_cast<float>(n) + epsilon);
  const Lanes inverse = broadcast(1.0f / root);
  each_lanes(
      n, [&](std::int64_t i, int count) __attribute__((always_inline)) {
        Lanes v = mul(load_some(x + i, count), inverse);
        if (weight != nullptr) {
          Lanes w = load_some(weight + i, count);
          if (offset != 0.0f) w = add(w, broadcast(offset));
          v = mul(v, w);
        }
        store_some(y + i, v, count);
      });
}

void add_rows(const float* a, const float* b, std::int64_t n, float* y) noexcept {
  each_lanes(
      n, [&](std::int64_t i, int count)
             __attribute__((always_inline)) { store_some(y + i, add(load_some(a + i, count), load_some(b + i, count)), count); });
}
void mul_rows(const float* a, const float* b, std::int64_t n, float* y) noexcept {
  each_lanes(
      n, [&](std::int64_t i, int count)
             __attribute__((always_inline)) { store_some(y + i, mul(load_some(a + i, count), load_some(b + i, count)), count); });
}
void scale_row(const float* x, float factor, std::int64_t n, float* y) noexcept {
  const Lanes f = broadcast(factor);
  each_lanes(
      n, [&](std::int64_t i, int count) __attribute__((always_inline)) { store_some(y + i, mul(load_some(x + i, count), f), count); });
}

float maximum(const float* x, std::int64_t n) noexcept {
  Lanes best = broadcast(-__builtin_inff());
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) best = max(load(x + i), best);  // a NaN in the row is dropped
  float largest_so_far = largest(best);
  for (; i < n; ++i) largest_so_far = x[i] > largest_so_far ? x[i] : largest_so_far;
  return largest_so_far;
}

float sum_row(const float* x, std::int64_t n) noexcept {
  return blocked_sum(
      n, [&](std::int64_t i, int count, Lanes s) __attribute__((always_inline)) { return add(s, load_some(x + i, count)); });
}

}  // namespace

float exp_sum(const float* x, float shift, std::int64_t n, float* y) noexcept {
  const Lanes by = broadcast(shift);
  float total = 0.0f;
  for (std::int64_t b = 0; b < n; b += 4096) {
    Lanes s = zero();
    each_lanes(
        n - b < 4096 ? n - b : 4096, [&](std::int64_t i, int count) __attribute__((always_inline)) {
          store_some(y + b + i, exponential(sub(load_some(x + b + i, count), by)), count);
          s = add(s, load_some(y + b + i, count));  // the part's missing lanes are zeros here, not exp(0)
        });
    total += sum(s);
  }
  return total;
}

extern const Vectors vectors;
const Vectors vectors = {matmul,        to_floats,         from_floats, rms_norm,   silu,    activate, glu,
                         softcap,       add_rows,          mul_rows,    scale_row,  maximum, exp_sum,  sum_row,
                         turn_keys,     attention_scores,  attention,   accumulate, dot,     combine,  softmax_backward,
                         silu_backward, silu_mul_backward, adamw,       pack_panel, gemm};

}  // namespace quern::cpu::QUERN_CPU_ISA
