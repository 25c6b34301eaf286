// Softmax, rotary embedding and paged attention of the reference interpreter.
#include "reference_interpreter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quern::test {
namespace {

constexpr double hidden = -std::numeric_limits<double>::infinity();

/// exp(x - max) over the sum, in place; all zeros where nothing is left. `sink` takes mass only.
void softmax_row(std::vector<double>& row, double sink) {
  double best = sink;
  for (const double x : row) best = std::max(best, x);
  if (best == hidden) {
    std::fill(row.begin(), row.end(), 0.0);
    return;
  }
  double sum = std::exp(sink - best);
  for (double& x : row) sum += x = std::exp(x - best);
  for (double& x : row) x /= sum;
}

double capped(double x, double softcap) { return softcap > 0 ? softcap * std::tanh(x / softcap) : x; }

/// The ALiBi slope of a head: two geometric series, the first over the largest power of two of heads.
double slope(std::int64_t head, std::int64_t heads, double max_bias) {
  if (max_bias <= 0) return 1;
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  if (head < power) return std::pow(2.0, -max_bias / static_cast<double>(power) * static_cast<double>(head + 1));
  return std::pow(2.0, -max_bias / 2 / static_cast<double>(power) * static_cast<double>(2 * (head - power) + 1));
}

/// Pairs that turn `turns` times over the context, as a real pair number.
double yarn_pair(double turns, double context, double size, double base) {
  return size * std::log(context / (turns * 2 * M_PI)) / (2 * std::log(base));
}

double scaled(const ReferenceCall& call, double f, double pair, double size, double base) {
  const double factor = call.number(QUERN_KEY_FACTOR);
  const auto context = static_cast<double>(call.integer(QUERN_KEY_ORIGINAL_CONTEXT));
  switch (call.integer(QUERN_KEY_SCALING)) {
    case 1: return f / factor;
    case 2: {
      const double low = std::max(std::floor(yarn_pair(call.number(QUERN_KEY_BETA_FAST), context, size, base)), 0.0);
      const double high = std::min(std::ceil(yarn_pair(call.number(QUERN_KEY_BETA_SLOW), context, size, base)), size - 1);
      const double ramp = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
      return f / factor * ramp + f * (1 - ramp);
    }
    case 3: {
      const double low = call.number(QUERN_KEY_LOW_FREQ_FACTOR), high = call.number(QUERN_KEY_HIGH_FREQ_FACTOR);
      const double turns = context * f / (2 * M_PI);
      const double mix = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      return (1 - mix) * f / factor + mix * f;
    }
    default: return f;
  }
}

}  // namespace

void reference_softmax(ReferenceCall& call) {
  const Cells &x = call.in[0], &mask = call.in[1], &sinks = call.in[2], &y = call.out[0];
  const std::int64_t queries = x.rank() > 1 ? x.dims[x.dims.size() - 2] : 1;
  const std::int64_t heads = x.rank() > 2 ? x.dims[x.dims.size() - 3] : 1;
  const std::int64_t window = call.integer(QUERN_KEY_WINDOW);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const std::int64_t head = row / queries % heads;
    const std::int64_t query = row % queries + call.integer(QUERN_KEY_QUERY_OFFSET);
    std::vector<double> p(static_cast<std::size_t>(x.last()));
    for (std::int64_t k = 0; k < x.last(); ++k) {
      double s = capped(call.number(QUERN_KEY_SCALE) * x.cell(row, k), call.number(QUERN_KEY_SOFTCAP));
      if (mask.data) {
        std::int64_t at = 0, step = 1, i = row * x.last() + k;
        for (std::size_t d = 0; d < mask.dims.size(); ++d) {
          const std::int64_t size = x.dims[x.dims.size() - 1 - d], mine = mask.dims[mask.dims.size() - 1 - d];
          if (mine != 1) at += i % size * step;
          step *= mine;
          i /= size;
        }
        s += slope(head, heads, call.number(QUERN_KEY_MAX_BIAS)) * mask.flat(at);
      }
      if (call.integer(QUERN_KEY_CAUSAL) && k > query) s = hidden;
      if (window > 0 && k <= query - window) s = hidden;
      p[static_cast<std::size_t>(k)] = s;
    }
    softmax_row(p, sinks.data ? sinks.flat(head) : hidden);
    for (std::int64_t k = 0; k < x.last(); ++k) y.cell(row, k) = p[static_cast<std::size_t>(k)];
  }
}

void reference_rope_table(ReferenceCall& call) {
  const Cells &count = call.in[0], &factors = call.in[1], &table = call.out[0];
  const auto size = static_cast<double>(2 * table.dims[1]);
  double base = call.number(QUERN_KEY_BASE);
  if (call.integer(QUERN_KEY_SCALING) == 4) base *= std::pow(call.number(QUERN_KEY_FACTOR), size / (size - 2));
  const std::int64_t rows = count.data ? std::min(table.dims[0], static_cast<std::int64_t>(count.flat(0))) : table.dims[0];
  for (std::int64_t i = 0; i < table.dims[1]; ++i) {
    const auto pair = static_cast<double>(i);
    double f = std::pow(base, -2 * pair / size) / (factors.data ? factors.flat(i) : 1);
    f = scaled(call, f, pair, size, base);
    for (std::int64_t p = 0; p < rows; ++p) {
      const double angle = static_cast<double>(call.integer(QUERN_KEY_FIRST) + p) * f;
      table.at({p, i, 0}) = call.number(QUERN_KEY_MSCALE) * std::cos(angle);
      table.at({p, i, 1}) = call.number(QUERN_KEY_MSCALE) * std::sin(angle);
    }
  }
}

void reference_rope(ReferenceCall& call) {
  const Cells &x = call.in[0], &position = call.in[1], &table = call.in[2], &y = call.out[0];
  const std::int64_t pairs = table.dims[1];
  const double sign = call.integer(QUERN_KEY_INVERSE) ? -1 : 1;
  for (std::int64_t t = 0; t < x.dims[0]; ++t)
    for (std::int64_t h = 0; h < x.dims[1]; ++h) {
      const auto p = static_cast<std::int64_t>(position.flat(t));
      const bool inside = p >= 0 && p < table.dims[0];
      if (!inside) call.interpreter.raise_index_fault();
      for (std::int64_t i = 2 * pairs; i < x.dims[2]; ++i) y.at({t, h, i}) = inside ? x.at({t, h, i}) : 0;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t a = call.integer(QUERN_KEY_MODE) ? i : 2 * i;
        const std::int64_t b = call.integer(QUERN_KEY_MODE) ? i + pairs : 2 * i + 1;
        const double x0 = x.at({t, h, a}), x1 = x.at({t, h, b});
        const double c = inside ? table.at({p, i, 0}) : 0, s = inside ? sign * table.at({p, i, 1}) : 0;
        y.at({t, h, a}) = x0 * c - x1 * s;
        y.at({t, h, b}) = x0 * s + x1 * c;
      }
    }
}

void reference_kv_write(ReferenceCall& call) {
  const Cells &x = call.in[0], &blocks = call.in[1], &slot = call.in[2], &position = call.in[3], &cache = call.out[0];
  const std::int64_t page = cache.dims[2];
  for (std::int64_t t = 0; t < x.dims[0]; ++t) {
    const auto p = static_cast<std::int64_t>(position.flat(t));
    if (p < 0) continue;
    const auto s = static_cast<std::int64_t>(slot.flat(t));
    const bool known = s >= 0 && s < blocks.dims[0] && p / page < blocks.dims[1];
    const std::int64_t id = known ? static_cast<std::int64_t>(blocks.at({s, p / page})) : -1;
    if (id < 0 || id >= cache.dims[0]) {
      call.interpreter.raise_index_fault();
      continue;
    }
    for (std::int64_t h = 0; h < x.dims[1]; ++h)
      for (std::int64_t i = 0; i < x.dims[2]; ++i) cache.at({id, h, p % page, i}) = x.at({t, h, i});
  }
}

void reference_attention(ReferenceCall& call) {
  const Cells &q = call.in[0], &k = call.in[1], &v = call.in[2], &blocks = call.in[3], &slot = call.in[4];
  const Cells &position = call.in[5], &kv_len = call.in[6], &mask = call.in[7], &sinks = call.in[8], &y = call.out[0];
  const std::int64_t page = k.dims[2], heads = q.dims[1], group = heads / k.dims[1];
  const std::int64_t window = call.integer(QUERN_KEY_WINDOW);
  const bool hides = mask.data && call.interpreter.graph().value(call.node.inputs[7]).dtype == QUERN_U8;
  for (std::int64_t t = 0; t < q.dims[0]; ++t) {
    const auto p = static_cast<std::int64_t>(position.flat(t));
    const auto s = static_cast<std::int64_t>(slot.flat(t));
    const bool causal = call.integer(QUERN_KEY_CAUSAL) != 0;
    const std::int64_t end = p < 0 ? 0 : causal ? p + 1 : static_cast<std::int64_t>(kv_len.flat(s));
    const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, p - window + 1) : 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> weight;
      for (std::int64_t j = first; j < end; ++j) {
        const auto id = static_cast<std::int64_t>(blocks.at({s, j / page}));
        double dot = 0;
        for (std::int64_t i = 0; i < q.dims[2]; ++i) dot += q.at({t, h, i}) * k.at({id, h / group, j % page, i});
        double score = capped(call.number(QUERN_KEY_SCALE) * dot, call.number(QUERN_KEY_SOFTCAP));
        if (hides && mask.at({t, j}) == 0) score = hidden;
        if (mask.data && !hides) score += slope(h, heads, call.number(QUERN_KEY_MAX_BIAS)) * mask.at({t, j});
        weight.push_back(score);
      }
      softmax_row(weight, sinks.data ? sinks.flat(h) : hidden);
      for (std::int64_t i = 0; i < y.dims[2]; ++i) {
        double sum = 0;
        for (std::int64_t j = first; j < end; ++j) {
          const auto id = static_cast<std::int64_t>(blocks.at({s, j / page}));
          sum += weight[static_cast<std::size_t>(j - first)] * v.at({id, h / group, j % page, i});
        }
        y.at({t, h, i}) = sum;
      }
    }
  }
}

}  // namespace quern::test
