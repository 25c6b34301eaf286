// Ops of training graphs in the reference interpreter, forward.
#include "reference_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace quern::test {
namespace {

constexpr double unseen = -std::numeric_limits<double>::infinity();

/// Philox 4x32 with 10 rounds: (word i % 4 + 0.5) / 2^32.
double uniform(std::int64_t i, std::uint32_t step, std::uint32_t salt, std::array<std::uint32_t, 2> key) {
  std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(i / 4), step, salt, 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return (c[static_cast<std::size_t>(i % 4)] + 0.5) / 4294967296.0;
}

void dropout(ReferenceCall& call) {
  const Cells &x = call.in[0], &seed = call.in[1], &step = call.in[2], &y = call.out[0];
  const double p = call.number(QUERN_KEY_P);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double u = uniform(i, static_cast<std::uint32_t>(step.flat(0)), static_cast<std::uint32_t>(call.integer(QUERN_KEY_SALT)),
                             {static_cast<std::uint32_t>(seed.flat(0)), static_cast<std::uint32_t>(seed.flat(1))});
    y.flat(i) = u >= p ? x.flat(i) / (1 - p) : 0;
  }
}

void cumsum(ReferenceCall& call) {
  for (std::int64_t row = 0; row < call.in[0].rows(); ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < call.in[0].last(); ++i) call.out[0].cell(row, i) = sum += call.in[0].cell(row, i);
  }
}

/// The element of `to` for each element of `from`, where the dimensions of `from` are multiples, the last ones aligned.
template <typename F>
void each_repeat(const Cells& from, const Cells& to, F f) {
  for (std::int64_t i = 0; i < from.count(); ++i) {
    std::int64_t left = i, at = 0, step = 1;
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
      const std::int64_t size = from.dims[from.dims.size() - 1 - d];
      if (d < to.dims.size()) {
        const std::int64_t mine = to.dims[to.dims.size() - 1 - d];
        at += left % size % mine * step;
        step *= mine;
      }
      left /= size;
    }
    f(i, at);
  }
}

void sum_to(ReferenceCall& call) {
  const Cells &x = call.in[0], &y = call.out[0];
  for (std::int64_t i = 0; i < y.count(); ++i) y.flat(i) = 0;
  each_repeat(x, y, [&](std::int64_t i, std::int64_t at) { y.flat(at) += x.flat(i); });
}

void repeat_rows(ReferenceCall& call) {
  each_repeat(call.out[0], call.in[0], [&](std::int64_t i, std::int64_t at) { call.out[0].flat(i) = call.in[0].flat(at); });
}

/// Copies x to y from `start` on along `axis`.
void place(const Cells& x, const Cells& y, std::size_t axis, std::int64_t start) {
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t outer = i / inner / x.dims[axis], along = i / inner % x.dims[axis];
    y.flat((outer * y.dims[axis] + along + start) * inner + i % inner) = x.flat(i);
  }
}

void concat(ReferenceCall& call) {
  const auto axis = static_cast<std::size_t>(call.integer(QUERN_KEY_AXIS));
  std::int64_t start = 0;
  for (const Cells& x : call.in) {
    place(x, call.out[0], axis, start);
    start += x.dims[axis];
  }
}

void pad(ReferenceCall& call) {
  for (std::int64_t i = 0; i < call.out[0].count(); ++i) call.out[0].flat(i) = call.number(QUERN_KEY_VALUE);
  place(call.in[0], call.out[0], static_cast<std::size_t>(call.integer(QUERN_KEY_AXIS)), call.integer(QUERN_KEY_BEFORE));
}

template <bool add>
void write_rows(ReferenceCall& call) {
  const Cells &x = call.in[0], &index = call.in[1], &table = call.out[0];
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto row = static_cast<std::int64_t>(index.flat(t));
    if (row < 0) continue;
    for (std::int64_t i = 0; i < x.last(); ++i) table.at({row, i}) = x.at({t, i}) + (add ? table.at({row, i}) : 0);
  }
}

void layer_norm(ReferenceCall& call) {
  const Cells &x = call.in[0], &weight = call.in[1], &bias = call.in[2], &y = call.out[0];
  const auto n = static_cast<double>(x.last());
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) mean += x.cell(row, i) / n;
    for (std::int64_t i = 0; i < x.last(); ++i) variance += (x.cell(row, i) - mean) * (x.cell(row, i) - mean) / n;
    for (std::int64_t i = 0; i < x.last(); ++i) {
      const double normed = (x.cell(row, i) - mean) / std::sqrt(variance + call.number(QUERN_KEY_EPSILON));
      y.cell(row, i) = normed * (weight.data ? weight.flat(i) : 1) + (bias.data ? bias.flat(i) : 0);
    }
  }
}

void l2_norm(ReferenceCall& call) {
  const Cells& x = call.in[0];
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) squares += x.cell(row, i) * x.cell(row, i);
    for (std::int64_t i = 0; i < x.last(); ++i)
      call.out[0].cell(row, i) = x.cell(row, i) / std::max(std::sqrt(squares), call.number(QUERN_KEY_EPSILON));
  }
}

double log_sum(const Cells& x, std::int64_t row) {
  double best = unseen, sum = 0;
  for (std::int64_t i = 0; i < x.last(); ++i) best = std::max(best, x.cell(row, i));
  for (std::int64_t i = 0; i < x.last(); ++i) sum += std::exp(x.cell(row, i) - best);
  return best + std::log(sum);
}

void logsumexp(ReferenceCall& call) {
  for (std::int64_t row = 0; row < call.in[0].rows(); ++row) call.out[0].flat(row) = log_sum(call.in[0], row);
}

void cross_entropy(ReferenceCall& call) {
  const Cells &x = call.in[0], &label = call.in[1];
  const double smoothing = call.number(QUERN_KEY_SMOOTHING);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const double lse = log_sum(x, row);
    call.out[1].flat(row) = lse;
    const auto at = static_cast<std::int64_t>(label.flat(row));
    double mean = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) mean += x.cell(row, i) / static_cast<double>(x.last());
    call.out[0].flat(row) = at == call.integer(QUERN_KEY_IGNORE)
                                ? 0
                                : lse - (1 - smoothing) * x.cell(row, at) - smoothing * mean + call.number(QUERN_KEY_Z_LOSS) * lse * lse;
  }
}

void masked_mean(ReferenceCall& call) {
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < call.in[0].count(); ++i)
    if (call.in[1].flat(i) != 0) sum += call.in[0].flat(i), ++count;
  call.out[0].flat(0) = count > 0 ? sum / count : 0;
  call.out[1].flat(0) = count;
}

void matmul_id(ReferenceCall& call) {
  const Cells &a = call.in[0], &b = call.in[1], &id = call.in[2], &y = call.out[0];
  for (std::int64_t t = 0; t < y.dims[0]; ++t)
    for (std::int64_t u = 0; u < y.dims[1]; ++u)
      for (std::int64_t n = 0; n < y.dims[2]; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < a.dims[2]; ++k)
          sum += a.at({t, a.dims[1] == 1 ? 0 : u, k}) * b.at({static_cast<std::int64_t>(id.at({t, u})), n, k});
        y.at({t, u, n}) = sum;
      }
}

void moe_router(ReferenceCall& call) {
  const Cells &x = call.in[0], &bias = call.in[1], &id = call.out[0], &weight = call.out[1];
  const std::int64_t experts = x.last(), used = id.last();
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    std::vector<double> score(static_cast<std::size_t>(experts));
    const double lse = log_sum(x, t);
    for (std::int64_t e = 0; e < experts; ++e)
      score[static_cast<std::size_t>(e)] = call.integer(QUERN_KEY_KIND) == 0 ? std::exp(x.cell(t, e) - lse) : sigmoid(x.cell(t, e));
    std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    const auto rank = [&](std::int64_t e) { return score[static_cast<std::size_t>(e)] + (bias.data ? bias.flat(e) : 0); };
    std::ranges::stable_sort(order, [&](auto e, auto f) { return rank(e) > rank(f); });
    double sum = 0;
    for (std::int64_t u = 0; u < used; ++u) sum += score[static_cast<std::size_t>(order[static_cast<std::size_t>(u)])];
    if (call.integer(QUERN_KEY_RENORMALISE) == 0) sum = 1;
    for (std::int64_t u = 0; u < used; ++u) {
      const std::int64_t e = order[static_cast<std::size_t>(u)];
      id.cell(t, u) = static_cast<double>(e);
      weight.cell(t, u) = call.number(QUERN_KEY_SCALE) * score[static_cast<std::size_t>(e)] / sum;
    }
  }
}

void moe_combine(ReferenceCall& call) {
  const Cells &x = call.in[0], &weight = call.in[1], &y = call.out[0];
  for (std::int64_t t = 0; t < x.dims[0]; ++t)
    for (std::int64_t n = 0; n < x.dims[2]; ++n) {
      y.at({t, n}) = 0;
      for (std::int64_t u = 0; u < x.dims[1]; ++u) y.at({t, n}) += weight.at({t, u}) * x.at({t, u, n});
    }
}

void lora_matmul(ReferenceCall& call) {
  const Cells &x = call.in[0], &pool = call.in[1], &table = call.in[2], &slot = call.in[3], &base = call.in[4], &y = call.out[0];
  for (std::int64_t t = 0; t < x.dims[0]; ++t) {
    for (std::int64_t n = 0; n < y.dims[1]; ++n) y.at({t, n}) = base.data ? base.at({t, n}) : 0;
    const auto s = static_cast<std::int64_t>(slot.flat(t));
    if (s < 0) continue;
    const auto entry = [&](std::int64_t i) { return static_cast<std::int64_t>(table.at({s, i})); };
    const double scale = call.number(QUERN_KEY_ALPHA) * std::bit_cast<float>(static_cast<std::int32_t>(entry(3)));
    for (std::int64_t r = 0; r < entry(2); ++r) {
      double u = 0;
      for (std::int64_t k = 0; k < x.dims[1]; ++k) u += pool.flat(entry(0) + r * x.dims[1] + k) * x.at({t, k});
      for (std::int64_t n = 0; n < y.dims[1]; ++n) y.at({t, n}) += scale * pool.flat(entry(1) + n * entry(2) + r) * u;
    }
  }
}

void lora_merge(ReferenceCall& call) {
  const Cells &w = call.in[0], &a = call.in[1], &b = call.in[2], &y = call.out[0];
  for (std::int64_t n = 0; n < w.dims[0]; ++n)
    for (std::int64_t k = 0; k < w.dims[1]; ++k) {
      y.at({n, k}) = w.at({n, k});
      for (std::int64_t r = 0; r < a.dims[0]; ++r) y.at({n, k}) += call.number(QUERN_KEY_ALPHA) * b.at({n, r}) * a.at({r, k});
    }
}

template <typename F>
void reduce(ReferenceCall& call, F finish) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < call.in[0].count(); ++i) {
    sum += call.in[0].flat(i);
    squares += call.in[0].flat(i) * call.in[0].flat(i);
  }
  call.out[0].flat(0) = finish(sum, squares, static_cast<double>(call.in[0].count()));
}

void sum_rows(ReferenceCall& call) {
  for (std::int64_t row = 0; row < call.in[0].rows(); ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < call.in[0].last(); ++i) sum += call.in[0].cell(row, i);
    call.out[0].flat(row) = sum;
  }
}

void attention_dense(ReferenceCall& call) {
  const Cells &q = call.in[0], &k = call.in[1], &v = call.in[2], &mask = call.in[3], &sinks = call.in[4];
  const Cells &y = call.out[0], &lse = call.out[1];
  const std::int64_t heads = q.dims[2], group = heads / k.dims[2], keys = k.dims[1];
  const double softcap = call.number(QUERN_KEY_SOFTCAP);
  for (std::int64_t b = 0; b < q.dims[0]; ++b)
    for (std::int64_t t = 0; t < q.dims[1]; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<double> s(static_cast<std::size_t>(keys), unseen);
        double best = sinks.data ? sinks.flat(h) : unseen;
        for (std::int64_t j = 0; j < keys; ++j) {
          if (!dense_key_is_seen(call, t, j)) continue;
          double dot = 0;
          for (std::int64_t i = 0; i < q.dims[3]; ++i) dot += q.at({b, t, h, i}) * k.at({b, j, h / group, i});
          double& score = s[static_cast<std::size_t>(j)];
          score = call.number(QUERN_KEY_SCALE) * dot;
          if (softcap > 0) score = softcap * std::tanh(score / softcap);
          if (mask.data) score += mask.flat(t * keys + j);  // [t, u] alone
          best = std::max(best, score);
        }
        double sum = sinks.data ? std::exp(sinks.flat(h) - best) : 0;
        for (const double score : s) sum += std::exp(score - best);
        const double log_of_sum = best + std::log(sum);
        if (lse.data) lse.at({b, t, h}) = log_of_sum;
        for (std::int64_t i = 0; i < v.dims[3]; ++i) {
          double& out = y.at({b, t, h, i}) = 0;
          for (std::int64_t j = 0; j < keys; ++j)
            if (s[static_cast<std::size_t>(j)] != unseen)
              out += std::exp(s[static_cast<std::size_t>(j)] - log_of_sum) * v.at({b, j, h / group, i});
        }
      }
}

}  // namespace

bool dense_key_is_seen(const ReferenceCall& call, std::int64_t query, std::int64_t key) {
  const bool ragged = call.node.op == QUERN_OP_ATTENTION_RAGGED || call.node.op == QUERN_OP_ATTENTION_RAGGED_BACKWARD;
  const std::int64_t position = query + (ragged ? 0 : call.integer(QUERN_KEY_QUERY_OFFSET)), window = call.integer(QUERN_KEY_WINDOW);
  if (ragged) {
    const Cells& start = call.in.back();
    bool together = false;
    for (std::int64_t e = 0; e + 1 < start.count(); ++e) {
      const auto holds = [&](std::int64_t row) {
        return start.flat(e) <= static_cast<double>(row) && static_cast<double>(row) < start.flat(e + 1);
      };
      together = together || (holds(query) && holds(key));
    }
    if (!together) return false;
  }
  return !(call.integer(QUERN_KEY_CAUSAL) && key > position) && !(window > 0 && key <= position - window);
}

ReferenceCall ragged_as_dense(const ReferenceCall& call) {
  constexpr std::size_t start = 3, masks = 2;
  ReferenceCall dense = call;
  const Cells starts = dense.in[start];
  dense.in.erase(dense.in.begin() + start);
  for (auto* list : {&dense.in, &dense.out})
    for (Cells& x : *list) {
      if (x.data == nullptr) continue;
      x.dims.insert(x.dims.begin(), 1);
      x.strides.insert(x.strides.begin(), 0);
    }
  dense.in.resize(dense.in.size() + masks);
  dense.in.push_back(starts);
  return dense;
}

ReferenceOp find_training_op(std::uint32_t op) {
  using Call = ReferenceCall&;
  switch (op) {
    case QUERN_OP_NEG: return [](Call c) { unary(c, [](double x) { return -x; }); };
    case QUERN_OP_SQR: return [](Call c) { unary(c, [](double x) { return x * x; }); };
    case QUERN_OP_SQRT: return [](Call c) { unary(c, [](double x) { return std::sqrt(x); }); };
    case QUERN_OP_ABS: return [](Call c) { unary(c, [](double x) { return std::fabs(x); }); };
    case QUERN_OP_CLAMP:
      return [](Call c) { unary(c, [&](double x) { return std::min(std::max(x, c.number(QUERN_KEY_MIN)), c.number(QUERN_KEY_MAX)); }); };
    case QUERN_OP_FILL:
      return [](Call c) {
        for (std::int64_t i = 0; i < c.out[0].count(); ++i) c.out[0].flat(i) = c.number(QUERN_KEY_VALUE);
      };
    case QUERN_OP_GELU:
      return [](Call c) {
        const std::int64_t kind = c.integer(QUERN_KEY_KIND);
        unary(c, [=](double x) { return kind == 2 ? gated(0, x, 1.702) : gated(kind + 1, x, 1); });
      };
    case QUERN_OP_RELU: return [](Call c) { unary(c, [](double x) { return x > 0 ? x : 0; }); };
    case QUERN_OP_RELU_SQR: return [](Call c) { unary(c, [](double x) { return x > 0 ? x * x : 0; }); };
    case QUERN_OP_SIGMOID: return [](Call c) { unary(c, [](double x) { return sigmoid(x); }); };
    case QUERN_OP_TANH: return [](Call c) { unary(c, [](double x) { return std::tanh(x); }); };
    case QUERN_OP_CAST: return reference_copy;
    case QUERN_OP_CUMSUM: return cumsum;
    case QUERN_OP_CONCAT: return concat;
    case QUERN_OP_PAD: return pad;
    case QUERN_OP_REPEAT: return repeat_rows;
    case QUERN_OP_SUM_TO: return sum_to;
    case QUERN_OP_SET_ROWS: return write_rows<false>;
    case QUERN_OP_INDEX_ADD: return write_rows<true>;
    case QUERN_OP_LAYER_NORM: return layer_norm;
    case QUERN_OP_L2_NORM: return l2_norm;
    case QUERN_OP_LOGSUMEXP: return logsumexp;
    case QUERN_OP_CROSS_ENTROPY: return cross_entropy;
    case QUERN_OP_MASKED_MEAN: return masked_mean;
    case QUERN_OP_MATMUL_ID: return matmul_id;
    case QUERN_OP_MOE_ROUTER: return moe_router;
    case QUERN_OP_MOE_COMBINE: return moe_combine;
    case QUERN_OP_LORA_MATMUL: return lora_matmul;
    case QUERN_OP_LORA_MERGE: return lora_merge;
    case QUERN_OP_DROPOUT: return dropout;
    case QUERN_OP_SUM: return [](Call c) { reduce(c, [](double sum, double, double) { return sum; }); };
    case QUERN_OP_MEAN: return [](Call c) { reduce(c, [](double sum, double, double n) { return sum / n; }); };
    case QUERN_OP_NORM: return [](Call c) { reduce(c, [](double, double squares, double) { return std::sqrt(squares); }); };
    case QUERN_OP_SUM_ROWS: return sum_rows;
    case QUERN_OP_ATTENTION_DENSE: return attention_dense;
    case QUERN_OP_ATTENTION_RAGGED:
      return [](Call c) {
        ReferenceCall dense = ragged_as_dense(c);
        attention_dense(dense);
      };
    default: return nullptr;
  }
}

}  // namespace quern::test
