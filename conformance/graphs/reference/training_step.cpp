// See training_step.hpp.
//
// Errors that noise may make, u = 2^-24: products of K terms (2 root(K) + 8) u sum |a b|, the T1 of the tolerance table; norms
// (2 root(n) + 8) u |r|; exp-like functions 24 u |r|; probabilities (4 root(kv) + 32) u p and twice the error of the largest score;
// elementwise arithmetic 2 u |r|. Each includes the store in f32.
#include "graphs/reference/training_step.hpp"

#include "reference/expected.hpp"

#include <algorithm>
#include <cmath>

namespace quern::conformance {
namespace {

struct Lora {
  AdapterPlace place;
  Matrix x, h;  // the input and A x
};

/// What a layer keeps for its backward pass.
struct Saved {
  Matrix x, n1, q, k, v, p, y, x2, n2, gate, up, active;
  Lora query, value, down;
};

double t1(std::int64_t k) { return (2.0 * std::sqrt(static_cast<double>(k)) + 8.0) * u32; }

class Step {
 public:
  Step(const TrainingModel& model, const TrainingState& before, int step, RoundingNoise* noise)
      : model_(model), s_(model.shape), before_(before), step_(step), noise_(noise), places_(adapter_places(model.shape, pool_size_)) {
    out_.gradient.assign(static_cast<std::size_t>(pool_size_), 0.0);
  }

  TrainingOutputs run() {
    Saved saved[TrainingShape::layers];
    Matrix x = model_.x;
    for (int l = 0; l < TrainingShape::layers; ++l) x = forward(l, x, saved[l]);
    Matrix dx = head(x);
    for (int l = TrainingShape::layers; l-- > 0;) dx = backward(l, dx, saved[l]);
    out_.dx = dx.at;
    update();
    return std::move(out_);
  }

 private:
  void move(double& y, double error) {
    if (noise_ != nullptr) noise_->move(y, error);
  }
  void move_all(Matrix& y, double relative) {
    for (double& v : y.at) move(v, relative * std::fabs(v));
  }

  // Products. term(i, j, l) of K; each with T1 of its own S.
  template <class F>
  Matrix product(std::int64_t m, std::int64_t n, std::int64_t k, const F& term) {
    Matrix y(m, n);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double t = term(i, j, l);
          sum += t, size += std::fabs(t);
        }
        move(sum, t1(k) * size);
        y(i, j) = sum;
      }
    return y;
  }
  Matrix by_rows(const Matrix& a, const Matrix& b) {  // a b^T
    return product(a.rows, b.rows, a.columns, [&](auto i, auto j, auto l) { return a(i, l) * b(j, l); });
  }
  Matrix by_columns(const Matrix& a, const Matrix& b) {  // a b
    return product(a.rows, b.columns, a.columns, [&](auto i, auto j, auto l) { return a(i, l) * b(l, j); });
  }
  Matrix sum(Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.at.size(); ++i) a.at[i] += b.at[i];
    move_all(a, 2 * u32);
    return a;
  }

  Matrix norm(const Matrix& x, const std::vector<double>& w) {
    Matrix y = x;
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t i = 0; i < x.columns; ++i) y(t, i) = w[static_cast<std::size_t>(i)] * x(t, i) * factor(x, t);
    move_all(y, t1(x.columns));
    return y;
  }
  double factor(const Matrix& x, std::int64_t t) const {
    double squares = 0;
    for (std::int64_t i = 0; i < x.columns; ++i) squares += x(t, i) * x(t, i);
    return 1.0 / std::sqrt(squares / static_cast<double>(x.columns) + s_.epsilon);
  }
  /// With f = 1 / rms: dx_i = f w_i dy_i - x_i f^3 / n * sum_j w_j dy_j x_j.
  Matrix norm_backward(const Matrix& x, const std::vector<double>& w, const Matrix& dy) {
    Matrix dx(x.rows, x.columns);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const double f = factor(x, t);
      double along = 0, size = 0;
      for (std::int64_t j = 0; j < x.columns; ++j) {
        const double term = w[static_cast<std::size_t>(j)] * dy(t, j) * x(t, j);
        along += term, size += std::fabs(term);
      }
      const double shared = f * f * f / static_cast<double>(x.columns);
      for (std::int64_t i = 0; i < x.columns; ++i) {
        const double own = f * w[static_cast<std::size_t>(i)] * dy(t, i);
        dx(t, i) = own - x(t, i) * shared * along;
        move(dx(t, i), t1(x.columns) * (std::fabs(own) + std::fabs(x(t, i)) * shared * size));
      }
    }
    return dx;
  }

  Matrix rotate(const Matrix& x, double turn) {
    Matrix y(x.rows, x.columns);
    const std::int64_t pairs = s_.head / 2;
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t i = 0; i < x.columns; i += 2) {
        const auto at = static_cast<std::size_t>((t * pairs + i % s_.head / 2) * 2);
        const double c = model_.angles[at], n = turn * model_.angles[at + 1], size = std::fabs(x(t, i)) + std::fabs(x(t, i + 1));
        y(t, i) = c * x(t, i) - n * x(t, i + 1);
        y(t, i + 1) = n * x(t, i) + c * x(t, i + 1);
        move(y(t, i), 4 * u32 * size);
        move(y(t, i + 1), 4 * u32 * size);
      }
    return y;
  }

  // Adapters.
  Matrix part(const std::vector<double>& pool, std::int64_t offset, std::int64_t rows, std::int64_t columns) const {
    Matrix y(rows, columns);
    std::copy_n(pool.begin() + offset, rows * columns, y.at.begin());
    return y;
  }
  Matrix adapted(const Matrix& x, const Matrix& base, const AdapterPlace& place, Lora& lora) {
    lora = {place, x, by_rows(x, part(before_.pool, place.a, s_.rank, place.k))};
    Matrix y = by_rows(lora.h, part(before_.pool, place.b, place.n, s_.rank));
    for (std::size_t i = 0; i < y.at.size(); ++i) {
      const double branch = s_.lora_scale * y.at[i];
      y.at[i] = base.at[i] + branch;
      move(y.at[i], 2 * u32 * (std::fabs(base.at[i]) + std::fabs(branch)));
    }
    return y;
  }
  /// Adds to the gradient of the pool, and returns that of x.
  Matrix adapted_backward(const Lora& lora, const Matrix& dy) {
    const AdapterPlace& p = lora.place;
    const Matrix a = part(before_.pool, p.a, s_.rank, p.k), b = part(before_.pool, p.b, p.n, s_.rank);
    Matrix dh = by_columns(dy, b);
    for (double& v : dh.at) v *= s_.lora_scale;
    move_all(dh, 2 * u32);
    const Matrix da = product(s_.rank, p.k, dy.rows, [&](auto i, auto j, auto t) { return dh(t, i) * lora.x(t, j); });
    const Matrix db = product(p.n, s_.rank, dy.rows, [&](auto i, auto j, auto t) { return s_.lora_scale * dy(t, i) * lora.h(t, j); });
    for (std::size_t i = 0; i < da.at.size(); ++i) out_.gradient[static_cast<std::size_t>(p.a) + i] += da.at[i];
    for (std::size_t i = 0; i < db.at.size(); ++i) out_.gradient[static_cast<std::size_t>(p.b) + i] += db.at[i];
    return by_columns(dh, a);
  }

  // Attention of each head over the tokens before.
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(2 * s_.head)); }  // 2^-3 for heads of 32
  std::int64_t kv_column(std::int64_t h) const { return h / (s_.heads / s_.kv_heads) * s_.head; }
  void attend(Saved& s) {
    const std::int64_t n = s_.tokens, d = s_.head;
    s.p = Matrix(s_.heads * n, n);
    s.y = Matrix(n, s_.heads * d);
    for (std::int64_t h = 0; h < s_.heads; ++h)
      for (std::int64_t t = 0; t < n; ++t) {
        std::vector<double> p(static_cast<std::size_t>(t + 1));
        double largest = -INFINITY, worst = 0, total = 0;
        for (std::int64_t j = 0; j <= t; ++j) {
          double score = 0, size = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            const double term = s.q(t, h * d + e) * s.k(j, kv_column(h) + e);
            score += term, size += std::fabs(term);
          }
          p[static_cast<std::size_t>(j)] = scale() * score;
          worst = std::max(worst, t1(d) * scale() * size);
          largest = std::max(largest, scale() * score);
        }
        for (double& v : p) total += v = std::exp(v - largest);
        for (std::int64_t j = 0; j <= t; ++j) {
          double& cell = s.p(h * n + t, j);
          cell = p[static_cast<std::size_t>(j)] / total;
          move(cell, ((4 * std::sqrt(static_cast<double>(t + 1)) + 32) * u32 + 2 * worst) * cell);
        }
        for (std::int64_t e = 0; e < d; ++e) {
          double y = 0, size = 0;
          for (std::int64_t j = 0; j <= t; ++j) {
            const double term = s.p(h * n + t, j) * s.v(j, kv_column(h) + e);
            y += term, size += std::fabs(term);
          }
          move(y, t1(t + 1) * size);
          s.y(t, h * d + e) = y;
        }
      }
  }
  void attend_backward(const Saved& s, const Matrix& dy, Matrix& dq, Matrix& dk, Matrix& dv) {
    const std::int64_t n = s_.tokens, d = s_.head;
    dq = Matrix(n, s_.heads * d), dk = Matrix(n, s_.kv_heads * d), dv = Matrix(n, s_.kv_heads * d);
    Matrix dk_size = dk, dv_size = dv;
    for (std::int64_t h = 0; h < s_.heads; ++h)
      for (std::int64_t t = 0; t < n; ++t) {
        double shared = 0, shared_size = 0;  // sum y dy
        for (std::int64_t e = 0; e < d; ++e) {
          const double term = s.y(t, h * d + e) * dy(t, h * d + e);
          shared += term, shared_size += std::fabs(term);
        }
        std::vector<double> dq_size(static_cast<std::size_t>(d), 0.0);
        for (std::int64_t j = 0; j <= t; ++j) {
          const double p = s.p(h * n + t, j);
          double dp = 0, size = 0;
          for (std::int64_t e = 0; e < d; ++e) {
            const double term = dy(t, h * d + e) * s.v(j, kv_column(h) + e);
            dp += term, size += std::fabs(term);
          }
          double ds = p * (dp - shared);
          move(ds, (t1(d) + 8 * u32) * p * (size + shared_size));
          for (std::int64_t e = 0; e < d; ++e) {
            const double to_q = scale() * ds * s.k(j, kv_column(h) + e), to_k = scale() * ds * s.q(t, h * d + e),
                         to_v = p * dy(t, h * d + e);
            dq(t, h * d + e) += to_q, dq_size[static_cast<std::size_t>(e)] += std::fabs(to_q);
            dk(j, kv_column(h) + e) += to_k, dk_size(j, kv_column(h) + e) += std::fabs(to_k);
            dv(j, kv_column(h) + e) += to_v, dv_size(j, kv_column(h) + e) += std::fabs(to_v);
          }
        }
        for (std::int64_t e = 0; e < d; ++e) move(dq(t, h * d + e), t1(n) * dq_size[static_cast<std::size_t>(e)]);
      }
    for (std::size_t i = 0; i < dk.at.size(); ++i) move(dk.at[i], t1(2 * n) * dk_size.at[i]), move(dv.at[i], t1(2 * n) * dv_size.at[i]);
  }

  // Layers.
  Matrix forward(int l, const Matrix& x, Saved& s) {
    const TrainingLayer& w = model_.layers[l];
    const AdapterPlace* place = &places_[static_cast<std::size_t>(3 * l)];
    s.x = x;
    s.n1 = norm(x, w.attn_norm);
    s.q = rotate(adapted(s.n1, by_rows(s.n1, w.query), place[0], s.query), 1);
    s.k = rotate(by_rows(s.n1, w.key), 1);
    s.v = adapted(s.n1, by_rows(s.n1, w.value), place[1], s.value);
    attend(s);
    s.x2 = sum(x, by_rows(s.y, w.output));
    s.n2 = norm(s.x2, w.ffn_norm);
    s.gate = by_rows(s.n2, w.gate);
    s.up = by_rows(s.n2, w.up);
    s.active = s.gate;
    for (std::size_t i = 0; i < s.active.at.size(); ++i) s.active.at[i] = s.gate.at[i] * sigmoid(s.gate.at[i]) * s.up.at[i];
    move_all(s.active, 24 * u32);
    return sum(s.x2, adapted(s.active, by_rows(s.active, w.down), place[2], s.down));
  }
  static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

  Matrix backward(int l, const Matrix& dx, const Saved& s) {
    const TrainingLayer& w = model_.layers[l];
    const Matrix dactive = sum(by_columns(dx, w.down), adapted_backward(s.down, dx));
    Matrix dgate = dactive, dup = dactive;
    for (std::size_t i = 0; i < dgate.at.size(); ++i) {
      const double g = s.gate.at[i], e = sigmoid(g);
      dgate.at[i] = dactive.at[i] * s.up.at[i] * e * (1 + g * (1 - e));
      dup.at[i] = dactive.at[i] * g * e;
      move(dgate.at[i], 24 * u32 * std::fabs(dactive.at[i] * s.up.at[i]) * e * (1 + std::fabs(g) * (1 - e)));
    }
    move_all(dup, 24 * u32);
    const Matrix dn2 = sum(by_columns(dgate, w.gate), by_columns(dup, w.up));
    const Matrix dx2 = sum(dx, norm_backward(s.x2, w.ffn_norm, dn2));
    Matrix dq, dk, dv;
    attend_backward(s, by_columns(dx2, w.output), dq, dk, dv);
    dq = rotate(dq, -1), dk = rotate(dk, -1);
    Matrix dn1 = sum(by_columns(dq, w.query), adapted_backward(s.query, dq));
    dn1 = sum(dn1, by_columns(dk, w.key));
    dn1 = sum(dn1, by_columns(dv, w.value));
    dn1 = sum(dn1, adapted_backward(s.value, dv));
    return sum(dx2, norm_backward(s.x, w.attn_norm, dn1));
  }

  /// The loss, and its gradient before the last norm.
  Matrix head(const Matrix& x) {
    const Matrix normed = norm(x, model_.final_norm), logits = by_rows(normed, model_.head);
    out_.logits = logits.at;
    Matrix dlogits(logits.rows, logits.columns);
    std::vector<double> lse(static_cast<std::size_t>(logits.rows));
    double total = 0, count = 0;
    for (std::int64_t t = 0; t < logits.rows; ++t) {
      double largest = -INFINITY, sum_of_exp = 0;
      for (std::int64_t j = 0; j < logits.columns; ++j) largest = std::max(largest, logits(t, j));
      for (std::int64_t j = 0; j < logits.columns; ++j) sum_of_exp += std::exp(logits(t, j) - largest);
      double& z = lse[static_cast<std::size_t>(t)];
      z = largest + std::log(sum_of_exp);
      move(z, (4 * std::sqrt(static_cast<double>(logits.columns)) + 32) * u32 + 4 * u32 * std::fabs(z));
      const int label = model_.label[static_cast<std::size_t>(t)];
      double loss = label < 0 ? 0.0 : z - logits(t, label);
      move(loss, label < 0 ? 0.0 : 2 * u32 * (std::fabs(z) + std::fabs(loss)));
      out_.loss.push_back(loss);
      total += loss, count += label < 0 ? 0 : 1;
    }
    double mean = total / count;
    move(mean, t1(logits.rows) * mean);
    out_.mean = {mean};
    for (std::int64_t t = 0; t < logits.rows; ++t)
      for (std::int64_t j = 0; j < logits.columns; ++j) {
        const int label = model_.label[static_cast<std::size_t>(t)];
        if (label < 0) continue;
        const double p = std::exp(logits(t, j) - lse[static_cast<std::size_t>(t)]);
        dlogits(t, j) = (p - (j == label ? 1.0 : 0.0)) / count;
        move(dlogits(t, j), ((16 + 2 * std::fabs(logits(t, j) - lse[static_cast<std::size_t>(t)])) * u32 * p + 4 * u32) / count);
      }
    return norm_backward(x, model_.final_norm, by_columns(dlogits, model_.head));
  }

  void update() {
    double squares = 0;
    for (double& g : out_.gradient) squares += g * g;
    double norm = std::sqrt(squares);
    move(norm, 4 * u32 * norm);
    double scale = std::min(1.0, s_.max_norm / norm);
    move(scale, 4 * u32 * scale);
    out_.norm = {norm};
    out_.scale = {scale};
    out_.state = before_;
    const double correct1 = 1 - std::pow(s_.beta1, step_), correct2 = 1 - std::pow(s_.beta2, step_);
    for (std::size_t i = 0; i < out_.gradient.size(); ++i) {
      const double g = out_.gradient[i] * scale;
      double &w = out_.state.pool[i], &m = out_.state.m[i], &v = out_.state.v[i];
      const double m_size = std::fabs(s_.beta1 * m) + std::fabs((1 - s_.beta1) * g);
      m = s_.beta1 * m + (1 - s_.beta1) * g;
      v = s_.beta2 * v + (1 - s_.beta2) * g * g;
      move(m, 4 * u32 * m_size);
      move(v, 6 * u32 * v);
      v = std::max(v, 0.0);
      const double moved = s_.lr * (m / correct1) / (std::sqrt(v / correct2) + s_.adam_epsilon), decayed = s_.lr * s_.weight_decay * w;
      const double size = std::fabs(w) + std::fabs(moved) + std::fabs(decayed);
      w = w - moved - decayed;
      move(w, 8 * u32 * size);
    }
  }

  const TrainingModel& model_;
  const TrainingShape& s_;
  const TrainingState& before_;
  int step_;
  RoundingNoise* noise_;
  std::int64_t pool_size_ = 0;
  std::vector<AdapterPlace> places_;
  TrainingOutputs out_;
};

}  // namespace

std::vector<AdapterPlace> adapter_places(const TrainingShape& s, std::int64_t& pool_size) {
  std::vector<AdapterPlace> places;
  pool_size = 0;
  for (int l = 0; l < TrainingShape::layers; ++l)
    for (const auto& [k, n] :
         {std::pair{s.hidden, s.heads * s.head}, std::pair{s.hidden, s.kv_heads * s.head}, std::pair{s.ffn, s.hidden}}) {
      places.push_back({k, n, pool_size, pool_size + s.rank * k});
      pool_size += s.rank * (k + n);
    }
  return places;
}

TrainingOutputs train(const TrainingModel& model, const TrainingState& before, int step, RoundingNoise* noise) {
  return Step(model, before, step, noise).run();
}

}  // namespace quern::conformance
