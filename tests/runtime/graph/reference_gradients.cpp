// Gradient ops of the reference interpreter, by the formulas of OPS.md. They read what the op is given, saved results too.
#include "reference_elements.hpp"

#include <bit>

namespace quern::test {
namespace {

/// dx = dy * slope(x).
template <typename F>
void backward(ReferenceCall& call, F slope) {
  for (std::int64_t i = 0; i < call.in[0].count(); ++i) call.out[0].flat(i) = call.in[1].flat(i) * slope(call.in[0].flat(i));
}

/// Sets an output to 0 unless the node adds to it.
void clear(const ReferenceCall& call, const Cells& out) {
  if (!out.data || call.integer(QUERN_KEY_ACCUMULATE) != 0) return;
  for (std::int64_t i = 0; i < out.count(); ++i) out.flat(i) = 0;
}

void glu_backward(ReferenceCall& call) {
  const Cells &gate = call.in[0], &up = call.in[1], &dy = call.in[2], &dgate = call.out[0], &dup = call.out[1];
  const std::int64_t n = dy.last(), kind = call.integer(QUERN_KEY_KIND);
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0;
  const double limit = call.number(QUERN_KEY_LIMIT), alpha = std::isfinite(limit) ? call.number(QUERN_KEY_ALPHA) : 1;
  for (std::int64_t row = 0; row < dy.rows(); ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t gate_at = up.data ? i : swapped ? n + i : i, up_at = up.data ? i : swapped ? i : n + i;
      double g = gate.cell(row, gate_at), u = up.data ? up.cell(row, up_at) : gate.cell(row, up_at);
      const bool gate_cut = g > limit, up_cut = std::fabs(u) > limit;
      if (std::isfinite(limit)) g = std::min(g, limit), u = std::max(std::min(u, limit), -limit) + 1;
      dgate.cell(row, gate_at) = gate_cut ? 0 : dy.cell(row, i) * u * gated_slope(kind, g, alpha);
      (up.data ? dup : dgate).cell(row, up_at) = up_cut ? 0 : dy.cell(row, i) * gated(kind, g, alpha);
    }
}

void get_rows_backward(ReferenceCall& call) {
  const Cells &dy = call.in[0], &index = call.in[1], &table = call.out[0];
  clear(call, table);
  for (std::int64_t t = 0; t < index.count(); ++t)
    for (std::int64_t i = 0; i < dy.last(); ++i) table.at({static_cast<std::int64_t>(index.flat(t)), i}) += dy.at({t, i});
}

void rms_norm_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &weight = call.in[1], &dy = call.in[2], &dx = call.out[0], &dweight = call.out[1];
  const auto n = static_cast<double>(x.last());
  clear(call, dweight);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0, along = 0;
    const auto own = [&](std::int64_t i) {
      return dy.cell(row, i) * (weight.data ? weight.flat(i) + call.number(QUERN_KEY_WEIGHT_OFFSET) : 1);
    };
    for (std::int64_t i = 0; i < x.last(); ++i) squares += x.cell(row, i) * x.cell(row, i), along += own(i) * x.cell(row, i);
    const double r = 1 / std::sqrt(squares / n + call.number(QUERN_KEY_EPSILON));
    for (std::int64_t i = 0; i < x.last(); ++i) {
      if (dweight.data) dweight.flat(i) += dy.cell(row, i) * x.cell(row, i) * r;
      dx.cell(row, i) = r * own(i) - x.cell(row, i) * r * r * r * along / n;
    }
  }
}

void layer_norm_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &weight = call.in[1], &dy = call.in[2], &dx = call.out[0], &dweight = call.out[1], &dbias = call.out[2];
  const auto n = static_cast<double>(x.last());
  clear(call, dweight), clear(call, dbias);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double mean = 0, variance = 0, sum = 0, along = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) mean += x.cell(row, i) / n;
    for (std::int64_t i = 0; i < x.last(); ++i) variance += (x.cell(row, i) - mean) * (x.cell(row, i) - mean) / n;
    const double r = 1 / std::sqrt(variance + call.number(QUERN_KEY_EPSILON));
    const auto own = [&](std::int64_t i) { return dy.cell(row, i) * (weight.data ? weight.flat(i) : 1); };
    const auto normed = [&](std::int64_t i) { return (x.cell(row, i) - mean) * r; };
    for (std::int64_t i = 0; i < x.last(); ++i) sum += own(i) / n, along += own(i) * normed(i) / n;
    for (std::int64_t i = 0; i < x.last(); ++i) {
      if (dweight.data) dweight.flat(i) += dy.cell(row, i) * normed(i);
      if (dbias.data) dbias.flat(i) += dy.cell(row, i);
      dx.cell(row, i) = r * (own(i) - sum - normed(i) * along);
    }
  }
}

void l2_norm_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &dy = call.in[1], &dx = call.out[0];
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0, along = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) squares += x.cell(row, i) * x.cell(row, i), along += x.cell(row, i) * dy.cell(row, i);
    const double length = std::sqrt(squares), epsilon = call.number(QUERN_KEY_EPSILON);
    for (std::int64_t i = 0; i < x.last(); ++i)
      dx.cell(row, i) = length > epsilon ? dy.cell(row, i) / length - x.cell(row, i) * along / (length * squares)
                                         : dy.cell(row, i) / epsilon;
  }
}

void softmax_backward(ReferenceCall& call) {
  const Cells &y = call.in[0], &dy = call.in[1], &dx = call.out[0];
  for (std::int64_t row = 0; row < y.rows(); ++row) {
    double along = 0;
    for (std::int64_t i = 0; i < y.last(); ++i) along += y.cell(row, i) * dy.cell(row, i);
    for (std::int64_t i = 0; i < y.last(); ++i) dx.cell(row, i) = call.number(QUERN_KEY_SCALE) * y.cell(row, i) * (dy.cell(row, i) - along);
  }
}

void cross_entropy_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &label = call.in[1], &lse = call.in[2], &dloss = call.in[3], &dx = call.out[0];
  const double smoothing = call.number(QUERN_KEY_SMOOTHING), z_loss = call.number(QUERN_KEY_Z_LOSS);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const auto at = static_cast<std::int64_t>(label.flat(row));
    for (std::int64_t i = 0; i < x.last(); ++i) {
      const double p = std::exp(x.cell(row, i) - lse.flat(row)) * (1 + 2 * z_loss * lse.flat(row));
      const double wanted = (i == at ? 1 - smoothing : 0) + smoothing / static_cast<double>(x.last());
      dx.cell(row, i) = at == call.integer(QUERN_KEY_IGNORE) ? 0 : dloss.flat(row) * (p - wanted);
    }
  }
}

void masked_mean_backward(ReferenceCall& call) {
  for (std::int64_t i = 0; i < call.in[0].count(); ++i)
    call.out[0].flat(i) = call.in[0].flat(i) != 0 ? call.in[2].flat(0) / call.in[1].flat(0) : 0;
}

void matmul_id_backward(ReferenceCall& call) {
  const Cells &dy = call.in[0], &a = call.in[1], &b = call.in[2], &id = call.in[3], &da = call.out[0], &db = call.out[1];
  if (da.data)
    for (std::int64_t i = 0; i < da.count(); ++i) da.flat(i) = 0;
  clear(call, db);
  for (std::int64_t t = 0; t < dy.dims[0]; ++t)
    for (std::int64_t u = 0; u < dy.dims[1]; ++u)
      for (std::int64_t n = 0; n < dy.dims[2]; ++n)
        for (std::int64_t k = 0; k < a.dims[2]; ++k) {
          const auto expert = static_cast<std::int64_t>(id.at({t, u}));
          const std::int64_t row = a.dims[1] == 1 ? 0 : u;
          if (da.data) da.at({t, row, k}) += dy.at({t, u, n}) * b.at({expert, n, k});
          if (db.data) db.at({expert, n, k}) += dy.at({t, u, n}) * a.at({t, row, k});
        }
}

void moe_router_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &id = call.in[2], &dweight = call.in[3], &dx = call.out[0];
  const double scale = call.number(QUERN_KEY_SCALE);
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    double total = 0;
    for (std::int64_t e = 0; e < x.last(); ++e) total += std::exp(x.cell(t, e));
    const bool soft = call.integer(QUERN_KEY_KIND) == 0;
    const auto score = [&](std::int64_t e) { return soft ? std::exp(x.cell(t, e)) / total : sigmoid(x.cell(t, e)); };
    const auto chosen = [&](std::int64_t u) { return static_cast<std::int64_t>(id.cell(t, u)); };
    double sum = 0, along = 0, shared = 0;
    for (std::int64_t u = 0; u < id.last(); ++u) sum += score(chosen(u)), along += dweight.cell(t, u) * score(chosen(u));
    const auto dscore = [&](std::int64_t u) {
      return call.integer(QUERN_KEY_RENORMALISE) ? scale * (dweight.cell(t, u) / sum - along / (sum * sum)) : scale * dweight.cell(t, u);
    };
    for (std::int64_t u = 0; u < id.last(); ++u) shared += dscore(u) * score(chosen(u));
    for (std::int64_t e = 0; e < x.last(); ++e) dx.cell(t, e) = soft ? -score(e) * shared : 0;
    for (std::int64_t u = 0; u < id.last(); ++u) {
      const std::int64_t e = chosen(u);
      dx.cell(t, e) += dscore(u) * score(e) * (soft ? 1 : 1 - score(e));
    }
  }
}

void lora_matmul_backward(ReferenceCall& call) {
  const Cells &x = call.in[0], &pool = call.in[1], &table = call.in[2], &slot = call.in[3], &dy = call.in[4];
  const Cells &dx = call.out[0], &dpool = call.out[1];
  for (std::int64_t i = 0; i < dx.count(); ++i) dx.flat(i) = 0;
  clear(call, dpool);
  for (std::int64_t t = 0; t < x.dims[0]; ++t) {
    const auto s = static_cast<std::int64_t>(slot.flat(t));
    if (s < 0) continue;
    const auto entry = [&](std::int64_t i) { return static_cast<std::int64_t>(table.at({s, i})); };
    const double scale = call.number(QUERN_KEY_ALPHA) * std::bit_cast<float>(static_cast<std::int32_t>(entry(3)));
    const std::int64_t k = x.dims[1], rank = entry(2);
    for (std::int64_t r = 0; r < rank; ++r) {
      double u = 0, g = 0;
      for (std::int64_t i = 0; i < k; ++i) u += pool.flat(entry(0) + r * k + i) * x.at({t, i});
      for (std::int64_t n = 0; n < dy.dims[1]; ++n) {
        g += scale * pool.flat(entry(1) + n * rank + r) * dy.at({t, n});
        dpool.flat(entry(1) + n * rank + r) += scale * dy.at({t, n}) * u;
      }
      for (std::int64_t i = 0; i < k; ++i) {
        dpool.flat(entry(0) + r * k + i) += g * x.at({t, i});
        dx.at({t, i}) += g * pool.flat(entry(0) + r * k + i);
      }
    }
  }
}

void attention_backward(ReferenceCall& call) {
  const Cells &q = call.in[0], &k = call.in[1], &v = call.in[2], &y = call.in[3], &lse = call.in[4], &dy = call.in[5], &mask = call.in[6];
  const std::int64_t heads = q.dims[2], group = heads / k.dims[2], keys = k.dims[1];
  const double scale = call.number(QUERN_KEY_SCALE), softcap = call.number(QUERN_KEY_SOFTCAP);
  for (const Cells& out : call.out)
    for (std::int64_t i = 0; i < out.count(); ++i) out.flat(i) = 0;
  for (std::int64_t b = 0; b < q.dims[0]; ++b)
    for (std::int64_t t = 0; t < q.dims[1]; ++t)
      for (std::int64_t h = 0; h < heads; ++h) {
        double along = 0;
        for (std::int64_t i = 0; i < v.dims[3]; ++i) along += y.at({b, t, h, i}) * dy.at({b, t, h, i});
        for (std::int64_t j = 0; j < keys; ++j) {
          if (!dense_key_is_seen(call, t, j)) continue;
          double score = 0, dp = 0, slope = 1;
          for (std::int64_t i = 0; i < q.dims[3]; ++i) score += scale * q.at({b, t, h, i}) * k.at({b, j, h / group, i});
          if (softcap > 0) {
            const double bent = std::tanh(score / softcap);
            score = softcap * bent, slope = 1 - bent * bent;
          }
          if (mask.data) score += mask.flat(t * keys + j);
          const double p = std::exp(score - lse.at({b, t, h}));
          for (std::int64_t i = 0; i < v.dims[3]; ++i) {
            dp += dy.at({b, t, h, i}) * v.at({b, j, h / group, i});
            call.out[2].at({b, j, h / group, i}) += p * dy.at({b, t, h, i});
          }
          const double ds = scale * slope * p * (dp - along);
          for (std::int64_t i = 0; i < q.dims[3]; ++i) {
            call.out[0].at({b, t, h, i}) += ds * k.at({b, j, h / group, i});
            call.out[1].at({b, j, h / group, i}) += ds * q.at({b, t, h, i});
          }
        }
      }
}

}  // namespace

ReferenceOp find_gradient_op(std::uint32_t op) {
  using Call = ReferenceCall&;
  switch (op) {
    case QUERN_OP_SILU_BACKWARD: return [](Call c) { backward(c, [](double x) { return gated_slope(0, x, 1); }); };
    case QUERN_OP_GELU_BACKWARD:
      return [](Call c) {
        const std::int64_t kind = c.integer(QUERN_KEY_KIND);
        backward(c, [=](double x) { return kind == 2 ? gated_slope(0, x, 1.702) : gated_slope(kind + 1, x, 1); });
      };
    case QUERN_OP_RELU_BACKWARD: return [](Call c) { backward(c, [](double x) { return x > 0 ? 1 : 0; }); };
    case QUERN_OP_RELU_SQR_BACKWARD: return [](Call c) { backward(c, [](double x) { return x > 0 ? 2 * x : 0; }); };
    case QUERN_OP_SIGMOID_BACKWARD: return [](Call c) { backward(c, [](double x) { return gated_slope(4, x, 1); }); };
    case QUERN_OP_TANH_BACKWARD: return [](Call c) { backward(c, [](double x) { return 1 - std::tanh(x) * std::tanh(x); }); };
    case QUERN_OP_GLU_BACKWARD: return glu_backward;
    case QUERN_OP_GET_ROWS_BACKWARD: return get_rows_backward;
    case QUERN_OP_RMS_NORM_BACKWARD: return rms_norm_backward;
    case QUERN_OP_LAYER_NORM_BACKWARD: return layer_norm_backward;
    case QUERN_OP_L2_NORM_BACKWARD: return l2_norm_backward;
    case QUERN_OP_SOFTMAX_BACKWARD: return softmax_backward;
    case QUERN_OP_CROSS_ENTROPY_BACKWARD: return cross_entropy_backward;
    case QUERN_OP_MASKED_MEAN_BACKWARD: return masked_mean_backward;
    case QUERN_OP_MATMUL_ID_BACKWARD: return matmul_id_backward;
    case QUERN_OP_MOE_ROUTER_BACKWARD: return moe_router_backward;
    case QUERN_OP_LORA_MATMUL_BACKWARD: return lora_matmul_backward;
    case QUERN_OP_ATTENTION_BACKWARD: return attention_backward;
    case QUERN_OP_ATTENTION_RAGGED_BACKWARD:
      return [](Call c) {
        ReferenceCall dense = ragged_as_dense(c);
        attention_backward(dense);
      };
    default: return nullptr;
  }
}

}  // namespace quern::test
