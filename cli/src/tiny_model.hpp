// A model of 65,856 made-up weights, and what it must compute: what `quern doctor --try` runs on each device. Pure.
//
// A llama of two layers: 64 wide, 4 heads of 16, 2 of keys and values, 96 in the feed-forward part, 64 tokens, all weights f32. Each weight is
// a whole number of 24 bits times a power of two, so that every machine has the same. What it must compute was worked out in f64 by
// tests/support/tiny_model.py, which a test holds this to.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quern::cli {

constexpr std::uint32_t tiny_tokens = 16;

/// The whole GGUF file.
std::string tiny_model_file();

/// What it reads.
std::vector<std::int32_t> tiny_model_ids();

/// The negative log-likelihood of each token behind the first.
extern const std::array<double, tiny_tokens - 1> tiny_model_nll;

/// A device may be this far from it, in nats. In exact numerics with a f32 cache, each of the 15 products in a row sums at most 96 terms in f32, so
/// it errs by at most (96 / 8 + 2 sqrt 96 + 16) 2^-24 = 3e-6 of the sum of its terms' sizes, some ten times the result's size. Twenty such errors
/// in a row, each grown by no more than two, stay below 1e-3. The likelihoods lie between 3.8 and 10 nats, so that what is computed wrongly shows.
constexpr double tiny_model_tolerance = 1e-3;

/// A small product: a [48, 64] times b [40, 64] transposed, f32.
struct SmallProduct {
  static constexpr std::int64_t m = 48, n = 40, k = 64;
  std::vector<float> a, b;
  std::vector<double> y,
      bound;  // by f64; bound: (k / 8 + 2 sqrt k + 16) 2^-24 of the sum of sizes, the widest tier of the conformance suite
};
SmallProduct small_product();

/// The largest error as a share of its bound; infinite where a value is none. Sizes are equal.
double worst_share(const SmallProduct& product, std::span<const float> found);

/// The largest difference from tiny_model_nll; infinite where a value is none. Of the first tiny_tokens - 1.
double worst_nll(std::span<const float> found);

}  // namespace quern::cli
