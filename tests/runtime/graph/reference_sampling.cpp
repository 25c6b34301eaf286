// Penalties, biases and the draw of the reference interpreter.
#include "reference_interpreter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

namespace quern::test {
namespace {

enum Param { temperature, top_k, top_p, min_p, repeat, presence, frequency, window };

/// The first word of Philox 4x32 with 10 rounds.
std::uint32_t philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * counter[0], b = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter[0];
}

/// Token ids from the best logit to the worst, ties to the lowest id.
std::vector<std::int64_t> ranked(const Cells& x, std::int64_t row) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(x.last()));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return x.cell(row, a) > x.cell(row, b); });
  return ids;
}

/// Softmax over the first `kept` of `ids` at a temperature.
std::vector<double> probabilities(const Cells& x, std::int64_t row, const std::vector<std::int64_t>& ids, double heat) {
  std::vector<double> p;
  double sum = 0;
  for (const std::int64_t id : ids) sum += p.emplace_back(std::exp((x.cell(row, id) - x.cell(row, ids[0])) / heat));
  for (double& one : p) one /= sum;
  return p;
}

}  // namespace

void reference_argmax(ReferenceCall& call) {
  const Cells &x = call.in[0], &index = call.out[0];
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    std::int64_t best = 0;
    double value = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < x.last(); ++i)
      if (x.cell(row, i) > value) value = x.cell(row, best = i);
    index.flat(row) = static_cast<double>(best);
  }
}

void reference_penalize(ReferenceCall& call) {
  const Cells &x = call.in[0], &history = call.in[1], &length = call.in[2], &params = call.in[3], &y = call.out[0];
  for (std::int64_t s = 0; s < x.dims[0]; ++s) {
    for (std::int64_t i = 0; i < x.last(); ++i) y.at({s, i}) = x.at({s, i});
    const auto end = static_cast<std::int64_t>(length.flat(s));
    std::map<std::int64_t, double> counts;
    for (std::int64_t i = std::max<std::int64_t>(0, end - static_cast<std::int64_t>(params.at({s, window}))); i < end; ++i)
      ++counts[static_cast<std::int64_t>(history.at({s, i}))];
    for (const auto& [token, count] : counts) {
      if (token < 0 || token >= x.last()) continue;
      double& value = y.at({s, token});
      value = value > 0 ? value / params.at({s, repeat}) : value * params.at({s, repeat});
      value -= params.at({s, frequency}) * count + params.at({s, presence});
    }
  }
}

void reference_logit_bias(ReferenceCall& call) {
  const Cells &x = call.in[0], &token = call.in[1], &bias = call.in[2], &y = call.out[0];
  for (std::int64_t i = 0; i < x.count(); ++i) y.flat(i) = x.flat(i);
  for (std::int64_t s = 0; s < x.dims[0]; ++s)
    for (std::int64_t m = 0; m < token.dims[1]; ++m)
      if (const auto id = static_cast<std::int64_t>(token.at({s, m})); id >= 0) y.at({s, id}) += bias.at({s, m});
}

void reference_sample(ReferenceCall& call) {
  const Cells &x = call.in[0], &params = call.in[1], &seed = call.in[2], &step = call.in[3];
  const Cells &token = call.out[0], &logprob = call.out[1];
  for (std::int64_t s = 0; s < x.dims[0]; ++s) {
    std::vector<std::int64_t> ids = ranked(x, s);
    const std::vector<double> all = probabilities(x, s, ids, 1);
    std::size_t kept = ids.size();
    if (params.at({s, top_k}) > 0) kept = std::min(kept, static_cast<std::size_t>(params.at({s, top_k})));
    std::vector<std::int64_t> head(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept));
    std::vector<double> p = probabilities(x, s, head, 1);
    if (params.at({s, top_p}) < 1) {
      double sum = 0;
      std::size_t n = 0;
      while (n < kept && sum < params.at({s, top_p})) sum += p[n++];
      head.resize(std::max<std::size_t>(n, 1));
    }
    while (head.size() > 1 && p[head.size() - 1] < params.at({s, min_p}) * p[0]) head.pop_back();
    std::size_t drawn = 0;
    if (params.at({s, temperature}) > 0) {
      const std::uint32_t word = philox({static_cast<std::uint32_t>(step.flat(s)), 0, 0, 0},
                                        {static_cast<std::uint32_t>(seed.at({s, 0})), static_cast<std::uint32_t>(seed.at({s, 1}))});
      double u = (static_cast<double>(word) + 0.5) / 4294967296.0;
      p = probabilities(x, s, head, params.at({s, temperature}));
      while (drawn + 1 < head.size() && u >= p[drawn]) u -= p[drawn++];
    }
    token.flat(s) = static_cast<double>(head[drawn]);
    logprob.flat(s) = std::log(all[drawn]);
  }
}

}  // namespace quern::test
