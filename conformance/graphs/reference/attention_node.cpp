// kv_write and attention over paged caches, which a run shows as states: keys and values are known exactly, the query need not be.
//
// Attention, exact: S_v ((4 sqrt(kv) + 32) u + 2 max ds), S_v = sum p |v|, ds = (2 sqrt(d) + 8) u scale sum |q k|. Deviation: a query
// that is off by dq moves y by M dq, M = scale sum_j p_j (v_j - y) k_j. Fast numerics rounds q, k, p and v each by half a step of the
// widest conversion that the node allows, which moves y by p_j (v_j - y) ds_j and p_j v_j. A soft cap c makes c tanh(s / c) of a score: 10 u
// of it more, and its slope times all that moves the score. A sink is one more term of the sum of exp, whose value is 0.
#include "graphs/reference/node_reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// Rows of a cache [pages, heads, page, d], by sequence and position.
struct Pages {
  const Tensor& cache;
  const Tensor& table;

  std::int64_t heads() const { return cache.dims()[1]; }
  std::int64_t page() const { return cache.dims()[2]; }
  std::int64_t size() const { return cache.dims()[3]; }
  /// First element of a head's row; -1: no such page.
  std::int64_t element(std::int64_t slot, std::int64_t head, std::int64_t position) const {
    const std::int64_t per_sequence = table.dims()[1], index = position / page();
    if (slot < 0 || slot >= table.dims()[0] || position < 0 || index >= per_sequence) return -1;
    const auto id = static_cast<std::int64_t>(table.at(slot * per_sequence + index));
    if (id < 0 || id >= cache.dims()[0]) return -1;
    return ((id * heads() + head) * page() + position % page()) * size();
  }
};

struct Written {
  std::int64_t element;
  std::vector<double> x, s;
};

std::string wrong_row(const Tensor& found, const Written& row) {
  const Unit unit = unit_of(found.dtype());
  for (std::size_t first = 0; first < row.x.size(); first += static_cast<std::size_t>(unit.elements)) {
    double largest = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(unit.elements); ++i)
      largest = std::max(largest, std::fabs(row.x[i]) + 8 * row.s[i]);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(unit.elements); ++i) {
      // Q8_0: half a step of amax / 127, and a scale that is an f16: 127 steps of it are off by 127 * 2^-11 < 2^-4 steps.
      const double store = unit.elements == 1 ? store_bound(found.dtype(), row.x[i]) : (0.5 + 0x1p-4) * largest / 127.0;
      const double y = found.at(row.element + static_cast<std::int64_t>(i));
      if (std::isnan(row.x[i]) ? std::isnan(y) : std::fabs(y - row.x[i]) <= store + 8 * row.s[i]) continue;
      return "element " + std::to_string(row.element + static_cast<std::int64_t>(i)) + " is " + std::to_string(y) + ", expected " +
             std::to_string(row.x[i]) + " within " + std::to_string(store + 8 * row.s[i]);
    }
  }
  return {};
}

// f32 is enough for a deviation. A vector has `block` elements of the query; `together` elements of the output share what is read of the keys.
constexpr std::int64_t block = 8, together = 4;
using Vector = float __attribute__((vector_size(block * sizeof(float))));

#if defined(__x86_64__)
#define FOR_WIDER_PROCESSORS __attribute__((target_clones("default", "avx2")))
#else
#define FOR_WIDER_PROCESSORS
#endif

/// moved[e] = sum over keys j of pulls[j][e] keys[j][0 .. block - 1], in registers all the while.
FOR_WIDER_PROCESSORS
void moved_by(std::size_t count, const float* keys, const float* pulls, Vector* moved) {
  static_assert(together == 4);
  Vector a{}, b{}, c{}, d{};
  for (std::size_t j = 0; j < count; ++j, pulls += together, keys += block) {
    Vector key;
    std::memcpy(&key, keys, sizeof key);  // at no multiple of its size
    a += pulls[0] * key;
    b += pulls[1] * key;
    c += pulls[2] * key;
    d += pulls[3] * key;
  }
  moved[0] = a, moved[1] = b, moved[2] = c, moved[3] = d;
}

/// One row of attention.
class AttentionRow {
 public:
  AttentionRow(const NodeCall& call, std::int64_t row)
      : call_(call), row_(row), keys_{*call.input(1).tensor, *call.input(3).tensor}, values_{*call.input(2).tensor, *call.input(3).tensor} {
    const Operand& q = call.input(0);
    heads_ = q.dims[1];
    d_ = q.dims[2];
    slot_ = static_cast<std::int64_t>(call.input(4).tensor->at(row));
    position_ = static_cast<std::int64_t>(call.input(5).tensor->at(row));
    const auto window = static_cast<std::int64_t>(call.attribute(QUERN_KEY_WINDOW, 0));
    first_ = window > 0 ? std::max<std::int64_t>(0, position_ - window + 1) : 0;
    if (call.has(6) || call.has(7) || call.attribute(QUERN_KEY_CAUSAL, 1) == 0 || call.attribute(QUERN_KEY_MAX_BIAS, 0) != 0)
      throw std::logic_error("whole graphs use causal attention without masks");
  }

  void head(std::int64_t h, Result& y) {
    const std::int64_t dv = values_.size(), n = position_ - first_ + 1, kv_head = h / (heads_ / keys_.heads());
    if (position_ < 0 || n <= 0) {
      for (std::int64_t e = 0; e < dv; ++e) y.add(0, 0, 0);
      return;
    }
    load_query(h);
    load(keys_, kv_head, n, k_);
    load(values_, kv_head, n, v_);
    scores(h);
    mix(n, dv, y);
  }

 private:
  void load_query(std::int64_t h) {
    const std::int64_t at = (row_ * heads_ + h) * d_;
    q_.resize(static_cast<std::size_t>(d_)), s_.resize(q_.size());
    call_.input(0).read(at, d_, q_.data());
    call_.input(0).read_deviation(at, d_, s_.data());
    uncertain_ = std::ranges::any_of(s_, [](double s) { return s != 0; });
  }
  void load(const Pages& pages, std::int64_t head, std::int64_t n, std::vector<double>& out) const {
    out.resize(static_cast<std::size_t>(n * pages.size()));
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = pages.element(slot_, head, first_ + j);
      if (at < 0) throw std::logic_error("attention of a whole graph reads a position without a page");
      pages.cache.read(at, pages.size(), &out[static_cast<std::size_t>(j * pages.size())]);
    }
  }

  /// Half a step of the widest conversion, relative to the value; int8 counts as bf16, to which its 1 / 254 of the largest is close.
  double step() const {
    const std::uint32_t allowed = call_.numerics == Numerics::fast ? call_.node.fast_conversions : 0;
    if ((allowed & (QUERN_CONVERT_BF16 | QUERN_CONVERT_INT8)) != 0) return 0x1p-8;
    return (allowed & (QUERN_CONVERT_F16 | QUERN_CONVERT_TF32)) != 0 ? 0x1p-11 : 0.0;
  }

  void scores(std::int64_t h) {
    const double scale = call_.attribute(QUERN_KEY_SCALE, 1), softcap = call_.attribute(QUERN_KEY_SOFTCAP, 0),
                 sink = call_.has(8) ? call_.input(8).tensor->at(h) : -INFINITY;
    p_.resize(k_.size() / q_.size()), converted_.resize(p_.size()), slope_.assign(p_.size(), 1.0);
    double largest = sink, sum = 0;
    worst_score_ = 0;
    for (std::size_t j = 0; j < p_.size(); ++j) {
      double product = 0, size = 0, squares = 0;
      for (std::size_t e = 0; e < q_.size(); ++e) {
        const double term = q_[e] * k_[j * q_.size() + e];
        product += term, size += std::fabs(term), squares += term * term;
      }
      p_[j] = scale * product;
      double error = (2 * std::sqrt(static_cast<double>(d_)) + 8) * u32 * std::fabs(scale) * size;
      if (softcap > 0) {
        const double t = std::tanh(p_[j] / softcap);
        p_[j] = softcap * t;
        slope_[j] = 1 - t * t;
        error += 10 * u32 * std::fabs(p_[j]);
      }
      worst_score_ = std::max(worst_score_, error);
      converted_[j] = slope_[j] * std::fabs(scale) * step() * std::sqrt(2 * squares / 3);
      largest = std::max(largest, p_[j]);
    }
    sum = std::exp(sink - largest);
    for (double& p : p_) sum += p = std::exp(p - largest);
    for (double& p : p_) p /= sum;
  }

  // M has n x d x dv products a head, most of a whole graph's reference: moved_by does them.
  std::int64_t blocks() const { return (d_ + block - 1) / block; }
  void load_steps() {
    steps_.assign(p_.size() * static_cast<std::size_t>(blocks() * block), 0.0f);
    for (std::size_t j = 0; j < p_.size(); ++j)
      for (std::size_t i = 0; i < q_.size(); ++i)
        steps_[(i / block * p_.size() + j) * block + i % block] = static_cast<float>(k_[j * q_.size() + i]);
  }
  /// Adds to the squares of `together` elements what the query's deviation moves them by; `pulls_` has the factor of each key for each of them.
  void add_moved(std::array<double, together>& squares) const {
    for (std::int64_t b = 0; b < blocks(); ++b) {
      Vector moved[together];
      moved_by(p_.size(), &steps_[static_cast<std::size_t>(b * block) * p_.size()], pulls_.data(), moved);
      for (std::int64_t i = b * block; i < std::min(d_, (b + 1) * block); ++i)
        for (std::size_t e = 0; e < together; ++e) {
          const double by = moved[e][i % block] * s_[static_cast<std::size_t>(i)];
          squares[e] += by * by;
        }
    }
  }

  void mix(std::int64_t n, std::int64_t dv, Result& y) {
    const double scale = call_.attribute(QUERN_KEY_SCALE, 1), rounded = step();
    if (uncertain_) load_steps();
    for (std::int64_t first = 0; first < dv; first += together) {
      const auto count = static_cast<std::size_t>(std::min(together, dv - first));
      std::array<double, together> squares{}, results{}, sizes{};
      pulls_.assign(p_.size() * together, 0.0f);
      for (std::size_t e = 0; e < count; ++e) {
        const auto value = [&](std::size_t j) { return v_[j * static_cast<std::size_t>(dv) + static_cast<std::size_t>(first) + e]; };
        double r = 0, size = 0, square = 0;
        for (std::size_t j = 0; j < p_.size(); ++j) {
          const double v = value(j);
          r += p_[j] * v, size += p_[j] * std::fabs(v);
          square += 2 * rounded * rounded * p_[j] * p_[j] * v * v / 3;
        }
        for (std::size_t j = 0; j < p_.size(); ++j) {
          const double pull = p_[j] * (value(j) - r);
          square += pull * pull * converted_[j] * converted_[j];
          pulls_[j * together + e] = static_cast<float>(scale * slope_[j] * pull);
        }
        results[e] = r, sizes[e] = size, squares[e] = square;
      }
      if (uncertain_) add_moved(squares);
      for (std::size_t e = 0; e < count; ++e) {
        const double bound = sizes[e] * ((4 * std::sqrt(static_cast<double>(n)) + 32) * u32 + 2 * worst_score_);
        y.add(results[e], bound + (call_.dtypes[0] == QUERN_F32 ? 0.0 : half_ulp_f32(results[e])), std::sqrt(squares[e]));
      }
    }
  }

  const NodeCall& call_;
  std::int64_t row_;
  Pages keys_, values_;
  std::int64_t heads_ = 0, d_ = 0, slot_ = 0, position_ = 0, first_ = 0;
  std::vector<double> q_, s_, k_, v_, p_, converted_, slope_;
  std::vector<float> steps_;  // k_ as [block of the row][key][element of the block]
  std::vector<float> pulls_;  // [key][element]
  double worst_score_ = 0;
  bool uncertain_ = false;
};

}  // namespace

void kv_write_node(const NodeCall& call, Result& cache) {
  const Operand& x = call.input(0);
  const std::int64_t heads = x.dims[1], d = x.dims[2];
  const Tensor& before = *call.states[0];
  const Pages pages{before, *call.input(1).tensor};
  std::vector<Written> rows;
  for (std::int64_t t = 0; t < x.dims[0]; ++t) {
    const auto slot = static_cast<std::int64_t>(call.input(2).tensor->at(t)),
               position = static_cast<std::int64_t>(call.input(3).tensor->at(t));
    for (std::int64_t h = 0; position != -1 && h < heads; ++h) {
      Written row{pages.element(slot, h, position), std::vector<double>(static_cast<std::size_t>(d)),
                  std::vector<double>(static_cast<std::size_t>(d))};
      if (row.element < 0) continue;  // INDEX_RANGE
      x.read((t * heads + h) * d, d, row.x.data());
      x.read_deviation((t * heads + h) * d, d, row.s.data());
      rows.push_back(std::move(row));
    }
  }
  cache.check = [rows = std::move(rows), before, d](const Tensor& found) -> std::string {
    const Unit unit = unit_of(found.dtype());
    std::vector<bool> written(found.bytes().size(), false);
    for (const Written& row : rows) {
      if (std::string text = wrong_row(found, row); !text.empty()) return text;
      const auto first = static_cast<std::ptrdiff_t>(static_cast<std::uint64_t>(row.element / unit.elements) * unit.bytes);
      std::fill_n(written.begin() + first, static_cast<std::uint64_t>(d / unit.elements) * unit.bytes, true);
    }
    for (std::size_t b = 0; b < written.size(); ++b)
      if (!written[b] && found.bytes()[b] != before.bytes()[b])
        return "byte " + std::to_string(b) + " of a position that no row has was written";
    return {};
  };
}

void attention_node(const NodeCall& call, Result& y) {
  const Operand& q = call.input(0);
  for (std::int64_t row = 0; row < q.dims[0]; ++row) {
    AttentionRow attention(call, row);
    for (std::int64_t h = 0; h < q.dims[1]; ++h) attention.head(h, y);
  }
}

}  // namespace quern::conformance
