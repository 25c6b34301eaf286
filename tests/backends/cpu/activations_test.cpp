// The vector activations: within the errors that simd/activations.cpp and lanes.hpp derive, with bits that depend on the element alone.
#include "isa.hpp"
#include "simd/vectors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

namespace quern::cpu {
namespace {

constexpr double u = 0x1p-24;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  std::function<void(const Vectors&, const float*, std::int64_t, float*)> run;
  double (*exact)(double);
  /// What the derivation allows, of the exact value and its argument; `fused`: multiply and add round once.
  double (*bound)(double x, double y, bool fused);
};

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double tanh_gelu(double x) { return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }
double erf_gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

std::function<void(const Vectors&, const float*, std::int64_t, float*)> activation(Activation a) {
  return [a](const Vectors& v, const float* x, std::int64_t n, float* y) { v.activate(a, x, n, y); };
}
std::function<void(const Vectors&, const float*, std::int64_t, float*)> gated(std::int64_t kind, float alpha, float limit) {
  return [=](const Vectors& v, const float* x, std::int64_t n, float* y) {
    const std::vector<float> up(static_cast<std::size_t>(n), limit < infinity ? 0.0f : 1.0f);  // the factor is 1
    v.glu({kind, alpha, limit, x, up.data(), n, y});
  };
}

// A subnormal result rounds by half of 2^-149 at each of its last two steps.
double tanh_bound(double, double y, bool fused) { return (fused ? 5 : 7) * u * std::fabs(y) + 0x1p-149; }
double gelu_bound(double x, double, bool fused) { return (fused ? 5 : 6) * u * std::fabs(x) + 0x1p-149; }
double erf_bound(double x, double, bool fused) { return (fused ? 8.5 : 11) * u * std::fabs(x) + 0x1p-149; }
double sigmoid_bound(double, double y, bool fused) { return (2 + (1 - y) * (fused ? 2.2 : 3.2)) * u * y + 0x1p-148; }
/// x / (1 + e): e = exp(-a x) is within 2.2 u (3.2), and u |a x| where a is not 1; |x| 2^-126 where e is beyond f32.
double silu_bound(double x, double y, bool fused) {
  return (3 + (fused ? 2.2 : 3.2) + 1.5 * std::min(std::fabs(x), 128.0)) * u * std::fabs(y) + std::fabs(x) * 0x1p-126 + 0x1p-149;
}
/// A subnormal quotient rounds by 2^-150, which the cap of 30 multiplies.
double cap_bound(double, double y, bool fused) { return (fused ? 7 : 9) * u * std::fabs(y) + 31 * 0x1p-150; }

const std::vector<Function>& functions() {
  static const std::vector<Function> list = {
      {"tanh", activation(Activation::tanh), [](double x) { return std::tanh(x); }, tanh_bound},
      {"sigmoid", activation(Activation::sigmoid), sigmoid, sigmoid_bound},
      {"gelu erf", activation(Activation::gelu_erf), erf_gelu, erf_bound},
      {"gelu tanh", activation(Activation::gelu_tanh), tanh_gelu, gelu_bound},
      {"gelu quick", activation(Activation::gelu_quick), [](double x) { return x * sigmoid(1.702 * x); }, gelu_bound},
      {"silu gate", gated(glu_silu, 1, infinity), [](double x) { return x * sigmoid(x); }, silu_bound},
      {"gelu erf gate", gated(glu_gelu_erf, 1, infinity), erf_gelu, erf_bound},
      {"gelu tanh gate", gated(glu_gelu_tanh, 1, infinity), tanh_gelu, gelu_bound},
      {"relu gate", gated(glu_relu, 1, infinity), [](double x) { return std::max(x, 0.0); }, [](double, double, bool) { return 0.0; }},
      {"limited silu gate", gated(glu_silu, 1.5f, 7), [](double x) { return std::min(x, 7.0) * sigmoid(1.5 * std::min(x, 7.0)); },
       silu_bound},
      {"softcap", [](const Vectors& v, const float* x, std::int64_t n, float* y) { v.softcap(x, 30.0f, n, y); },
       [](double x) { return 30 * std::tanh(x / 30); }, cap_bound},
  };
  return list;
}

std::vector<Isa> levels() {
  std::vector<Isa> list = {Isa::baseline};
  const Isa best = detect_processor().best;
  if (best >= Isa::avx2) list.push_back(Isa::avx2);
  if (best >= Isa::avx512) list.push_back(Isa::avx512);
  return list;
}

/// Floats of every exponent and sign, and closely where the functions bend.
std::vector<float> arguments() {
  std::vector<float> list;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 160001) {
    const auto low = static_cast<std::uint32_t>(bits);
    float x;
    std::memcpy(&x, &low, 4);
    if (std::isfinite(x)) list.push_back(x);
  }
  for (int i = -160000; i <= 160000; i += 11) list.push_back(static_cast<float>(i) * 1e-4f);
  return list;
}

TEST(Activations, StayWithinTheErrorsThatAreDerivedForThem) {
  const std::vector<float> x = arguments();
  std::vector<float> y(x.size());
  for (const Isa isa : levels())
    for (const Function& f : functions()) {
      f.run(vectors_of(isa), x.data(), static_cast<std::int64_t>(x.size()), y.data());
      double worst = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = f.exact(x[i]), bound = f.bound(x[i], exact, isa != Isa::baseline), error = std::fabs(y[i] - exact);
        const double share = error == 0 ? 0 : bound > 0 ? error / bound : 1e9;
        if (!(share <= worst)) worst = share, at = i;
      }
      EXPECT_LE(worst, 1.0) << f.name << " " << isa_name(isa) << ": " << y[at] << " for " << x[at] << ", exactly " << f.exact(x[at]);
      RecordProperty(std::string(f.name) + " " + std::string(isa_name(isa)), std::to_string(worst));
    }
}

TEST(Activations, AnElementHasTheSameBitsWhereverItLies) {
  std::vector<float> x = arguments();
  x.resize(3000);
  for (const Isa isa : levels())
    for (const Function& f : functions()) {
      std::vector<float> whole(x.size()), part(x.size());
      f.run(vectors_of(isa), x.data(), static_cast<std::int64_t>(x.size()), whole.data());
      for (const std::size_t length : {1u, 5u, 15u, 17u, 31u}) {
        for (std::size_t i = 0; i < x.size(); i += length)
          f.run(vectors_of(isa), x.data() + i, static_cast<std::int64_t>(std::min(length, x.size() - i)), part.data() + i);
        EXPECT_EQ(std::memcmp(whole.data(), part.data(), x.size() * 4), 0) << f.name << " " << isa_name(isa) << ", parts of " << length;
      }
      part = x;
      f.run(vectors_of(isa), part.data(), static_cast<std::int64_t>(x.size()), part.data());
      EXPECT_EQ(std::memcmp(whole.data(), part.data(), x.size() * 4), 0) << f.name << " " << isa_name(isa) << ", in place";
    }
}

TEST(Activations, Avx2AndAvx512GiveTheSameBits) {
  if (levels().back() != Isa::avx512) GTEST_SKIP() << "this processor has no avx512";
  const std::vector<float> x = arguments();
  std::vector<float> two(x.size()), five(x.size());
  for (const Function& f : functions()) {
    f.run(vectors_of(Isa::avx2), x.data(), static_cast<std::int64_t>(x.size()), two.data());
    f.run(vectors_of(Isa::avx512), x.data(), static_cast<std::int64_t>(x.size()), five.data());
    EXPECT_EQ(std::memcmp(two.data(), five.data(), x.size() * 4), 0) << f.name;
  }
}

TEST(Activations, KeepTheirLimitsAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {-infinity, infinity, nan, 0.0f, -0.0f, -1e30f, 1e30f};
  for (const Isa isa : levels())
    for (const Function& f : functions()) {
      std::vector<float> y(x.size());
      f.run(vectors_of(isa), x.data(), static_cast<std::int64_t>(x.size()), y.data());
      const bool odd = std::string_view(f.name) == "tanh", cap = std::string_view(f.name) == "softcap",
                 limited = std::string_view(f.name).starts_with("limited");
      const float low = odd ? -1.0f : cap ? -30.0f : 0.0f;
      EXPECT_EQ(y[0], low) << f.name;
      EXPECT_EQ(y[5], low) << f.name;
      EXPECT_TRUE(std::isnan(y[2])) << f.name;
      EXPECT_EQ(y[3], std::string_view(f.name) == "sigmoid" ? 0.5f : 0.0f) << f.name;
      EXPECT_EQ(y[4], y[3]) << f.name;
      const bool unit = odd || std::string_view(f.name) == "sigmoid";
      if (limited) EXPECT_NEAR(y[1], 7.0f, 1e-3f);
      else EXPECT_EQ(y[1], unit ? 1.0f : cap ? 30.0f : infinity) << f.name;
    }
}

}  // namespace
}  // namespace quern::cpu
