// matmul_id: y[t][u] = a[t][u or 0] b[id[t][u]]^T. An expert is a matrix of b; the bounds are matmul's (matmul_reference.cpp).
//
// Rows whose id is -1 are zeros, those of an id out of range too, with INDEX_RANGE; r is 0 there and nothing but 0 is within its bound.
#include "ops/given.hpp"
#include "ops/hard_values.hpp"
#include "ops/matmul_reference.hpp"
#include "ops/shaped_cases.hpp"
#include "quern/quern_plan.h"

namespace quern::conformance {
namespace {

/// Whether no token uses an expert twice: equal outputs would not be independent.
bool all_distinct(const Tensor& id) {
  const std::int64_t used = id.dims()[1];
  for (std::int64_t pair = 0; pair < id.count(); ++pair)
    for (std::int64_t before = pair / used * used; before < pair; ++before)
      if (id.at(before) == id.at(pair)) return false;
  return true;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &id = call.inputs[2];
  const std::int64_t used = id.dims()[1], experts = b.dims()[0], n = b.dims()[1], k = b.dims()[2];
  const std::vector<double> a_values = a.values();
  const bool parts = has_parts(b.dtype(), call.what.fast_conversions);
  std::vector<double> b_values(static_cast<std::size_t>(b.count())), b_sizes(b_values.size());
  b.read_sized(0, b.count(), b_values.data(), b_sizes.data());
  const bool shared = a.dims()[1] == 1;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = call.what.inputs[0].data == DataKind::integers && k <= 4096 ? Rule::value : Rule::bounded;
  y.length = static_cast<double>(k);
  y.independent = is_centred(call.what.inputs[0].data) && is_centred(call.what.inputs[1].data) && id.dims()[0] >= 8 && all_distinct(id);
  y.sharing = sharing_of_conversions(shared ? n * used : n, even_shares(k));
  y.gain_variance = gain_variance_of_weights(experts * n, even_shares(k), b.dtype(), call.what.fast_conversions);
  const Tier tier = a.dtype() == QUERN_F32 ? Tier::t1 : Tier::t2;
  for (std::int64_t pair = 0; pair < id.count(); ++pair) {
    const auto expert = static_cast<std::int64_t>(id.at(pair));
    const auto first = a_values.begin() + (shared ? pair / used : pair) * k;
    const std::vector<double> row(first, first + k), step = conversion_steps(row, call.what.fast_conversions, b.dtype());
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0, scale = 0, part_scale = 0, variance = 0;
      if (expert >= 0 && expert < experts) {
        const std::int64_t first_weight = (expert * n + column) * k;
        const double* weights = b_values.data() + first_weight;
        for (std::size_t l = 0; l < row.size(); ++l) {
          sum += row[l] * weights[l];
          scale += std::fabs(row[l] * weights[l]);
          if (parts) part_scale += converted_size(row[l], step[l]) * b_sizes[static_cast<std::size_t>(first_weight) + l];
          variance += step[l] * weights[l] * step[l] * weights[l];
        }
      }
      const double store = sum == 0.0 ? 0.0 : narrow_store(call.what.outputs[0].dtype, sum);
      y.add(sum, accumulation_bound(tier, static_cast<double>(k), scale) + store);
      if (parts) y.fast_bound.push_back(accumulation_bound(tier, static_cast<double>(k), part_scale) + store);
      y.scale.push_back(scale);
      y.deviation.push_back(std::sqrt(variance / 3.0));
    }
  }
}

/// Which experts the tokens use.
enum class Choice { spread, one_expert, first_only, some_dropped, repeated };
const char* choice_name(Choice choice) {
  constexpr const char* names[] = {"spread", "one_expert", "distinct_low", "some_dropped", "repeated"};
  return names[static_cast<int>(choice)];
}
std::vector<std::int64_t> choose(Choice choice, std::int64_t tokens, std::int64_t used, std::int64_t experts) {
  const CounterRandom random = CounterRandom::of(choice_name(choice));
  std::vector<std::int64_t> id;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(experts)));
    for (std::int64_t u = 0; u < used; ++u) {
      switch (choice) {
        case Choice::spread: id.push_back((first + u * 3) % experts); break;
        case Choice::one_expert: id.push_back(experts - 1); break;
        case Choice::first_only: id.push_back(u % experts); break;
        case Choice::some_dropped: id.push_back((t + u) % 3 == 0 ? -1 : (first + u) % experts); break;
        case Choice::repeated: id.push_back(first); break;  // the same expert several times for one token
      }
    }
  }
  return id;
}

struct Shape {
  std::int64_t tokens = 5, used = 2, experts = 4, n = 33, k = 256;
  bool shared = true;  // one row of a for a token
  quern_dtype a = QUERN_F32, b = QUERN_F16, y = QUERN_F32;
  Choice choice = Choice::spread;
  DataKind data_a = DataKind::gaussian, data_b = DataKind::gaussian;
  Layout a_layout, b_layout, y_layout;
};

Case make(Profile profile, const Shape& s) {
  Case c;
  c.group = "moe";
  c.op = QUERN_OP_MATMUL_ID;
  c.profile = profile;
  c.level = level_inference;
  c.fast_conversions = weight_conversions(s.b);
  c.inputs = {input(s.a, {s.tokens, s.shared ? 1 : s.used, s.k}, s.data_a, s.a_layout),
              constant(s.b, {s.experts, s.n, s.k}, s.data_b, s.b_layout),
              given(input(QUERN_I32, {s.tokens, s.used}), choice_name(s.choice), choose(s.choice, s.tokens, s.used, s.experts))};
  c.outputs = {output(s.y, {s.tokens, s.used, s.n}, s.y_layout)};
  c.reference = reference;
  return c;
}

void formats(CaseSink& sink) {
  std::vector<quern_dtype> weights(float_dtypes.begin(), float_dtypes.end());
  weights.insert(weights.end(), block_dtypes.begin(), block_dtypes.end());
  for (const quern_dtype b : weights) {
    Shape s;
    s.b = b;
    for (const std::int64_t tokens : {1, 2, 7, 33})
      for (const bool shared : {true, false})
        for (const Choice choice : {Choice::spread, Choice::one_expert, Choice::some_dropped}) {
          s.tokens = tokens;
          s.shared = shared;
          s.choice = choice;
          sink.add(make(shared == (choice == Choice::spread) || tokens == 7 ? Profile::quick : Profile::full, s));
        }
    s = {};
    s.b = b;
    for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot, DataKind::integers}) {
      s.data_a = data;
      s.data_b = data == DataKind::heavy ? DataKind::gaussian : data;
      s.k = 768;
      sink.add(make(Profile::quick, s));
      s.tokens = 40;
      sink.add(make(Profile::full, s));
      s.tokens = 5;
    }
    s = {};
    s.b = b;
    s.data_a = DataKind::one_hot;
    s.data_b = DataKind::specials;  // blocks whose scales are 0, subnormal, negative and the largest
    if (!is_float(b)) sink.add(make(Profile::quick, s));
    s.data_b = DataKind::gaussian;
    s.data_a = DataKind::gaussian;
    for (const quern_dtype a : {QUERN_F16, QUERN_BF16}) {
      s.a = a;
      s.y = QUERN_F32;
      sink.add(make(Profile::quick, s));
      s.y = a;
      s.shared = false;
      sink.add(make(Profile::full, s));
      s.shared = true;
    }
    s = {};
    s.b = b;
    for (const Layout& layout : {rows_apart(1), shifted()}) {
      s.b_layout = layout;
      sink.add(make(Profile::quick, s));
    }
    for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), shifted()}) {
      s = {};
      s.b = b;
      s.shared = false;
      s.a_layout = layout;
      sink.add(make(Profile::full, s));
      s.a_layout = {};
      s.y_layout = layout;
      sink.add(make(Profile::full, s));
    }
  }
}

/// Numbers that kernels get wrong (hard_values.hpp): each stays with its own token.
void hard_values(CaseSink& sink) {
  for (const quern_dtype b : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0, QUERN_Q4_K, QUERN_Q6_K})
    for (const std::int64_t tokens : {1, 14}) {
      Shape s;
      s.b = b;
      s.tokens = tokens;
      s.k = unit_of(b).elements == 1 ? 257 : 3 * unit_of(b).elements;
      s.data_a = DataKind::specials;  // the rows are not alike: no test of all outputs together
      const auto add = [&](const char* name, void (*fill)(const Tensor&, const CounterRandom&)) {
        Case c = make(Profile::quick, s);
        c.inputs[0] = filled(std::move(c.inputs[0]), name, fill);
        sink.add(std::move(c));
      };
      add("not_finite_rows", fill_not_finite_rows);
      add("beyond_f16", fill_beyond_f16);
      add("tiny_blocks", fill_tiny_blocks);
      if (b != QUERN_F16) continue;
      s.y = QUERN_F16;
      add("beyond_f16", fill_beyond_f16);
    }
}

/// Widths at the ends of kernels' tiles (limits.txt), of few pairs and of many.
void ends_of_tiles(CaseSink& sink) {
  Shape s;
  for (const quern_dtype b : {QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_K})
    for (const std::int64_t n : {15, 16, 17, 127, 128, 129})
      for (const std::int64_t tokens : {3, 40}) {
        s.b = b;
        s.n = n;
        s.tokens = tokens;
        sink.add(make(n == 129 && tokens == 40 ? Profile::quick : Profile::full, s));
      }
  for (const quern_dtype b : {QUERN_F16, QUERN_Q8_0})
    for (const std::int64_t beside : {-1, 0, 1}) {
      s = {};
      s.b = b;
      s.n = 5;
      s.tokens = 2;
      s.k = 8192 + beside * unit_of(b).elements;
      sink.add(make(Profile::full, s));
    }
  // Operands that shared memory holds whole, and larger ones: of 10, 18 and 70 pairs of an expert.
  for (const std::int64_t k : {1792, 2048, 2304, 2560, 3584, 3840, 4096, 7680, 7936})
    for (const std::int64_t tokens : {20, 36, 140}) {
      s = {};
      s.b = QUERN_Q4_K;
      s.tokens = tokens;
      s.k = k;
      s.choice = tokens == 36 ? Choice::one_expert : Choice::spread;
      sink.add(make(k == 2560 && tokens == 140 ? Profile::quick : Profile::full, s));
    }
  s = {};
  s.b = QUERN_Q4_K;
  s.n = 3;
  s.tokens = 1;
  for (const std::int64_t k : {7936, 8192, 8448, 32512, 32768, 33024}) {
    s.k = k;
    sink.add(make(Profile::full, s));
  }
  s.b = QUERN_F16;
  for (const std::int64_t k : {32767, 32769}) {
    s.k = k;
    sink.add(make(Profile::full, s));
  }
}

void generate(CaseSink& sink) {
  formats(sink);
  hard_values(sink);
  ends_of_tiles(sink);
  for (const quern_dtype b : {QUERN_F16, QUERN_Q8_0, QUERN_Q4_K})
    for (const std::int64_t experts : {1, 4, 8, 64, 128})
      for (const std::int64_t used : {1, 2, 8}) {
        if (used > experts) continue;
        for (const Choice choice : {Choice::spread, Choice::first_only, Choice::repeated}) {
          Shape s;
          s.b = b;
          s.experts = experts;
          s.used = used;
          s.choice = choice;
          s.tokens = 9;
          s.n = 16;
          sink.add(make(b == QUERN_F16 || experts == 64 ? Profile::quick : Profile::full, s));
          s.tokens = 1;
          sink.add(make(Profile::full, s));
          s.tokens = 129;
          if (experts <= 8) sink.add(make(Profile::full, s));
        }
      }
  for (const quern_dtype b : {QUERN_F32, QUERN_F16, QUERN_Q4_0})
    for (const std::int64_t n : {1, 7, 64, 65, 129, 256})
      for (const std::int64_t k : {32, 96, 544}) {
        Shape s;
        s.b = b;
        s.n = n;
        s.k = k;
        sink.add(make(n == 65 ? Profile::quick : Profile::full, s));
        if (b != QUERN_Q4_0) {
          s.k = k + 1;  // no whole vector
          sink.add(make(n == 65 ? Profile::quick : Profile::full, s));
        }
      }
  for (const quern_dtype b : {QUERN_F16, QUERN_Q8_0, QUERN_Q4_K}) {
    Shape s;
    s.b = b;
    Case c = make(Profile::quick, s);
    c.inputs[2] =
        given(input(QUERN_I32, {s.tokens, s.used}), "out_of_range", std::vector<std::int64_t>{0, 3, 4, 1, -1, 2, -2, 2, 1000000000, 0});
    c.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(c);
    s.tokens = 0;
    sink.add(make(Profile::full, s));
    s = {};  // Mixtral's ratio of widths, an eighth of them
    s.b = b;
    s.experts = 8;
    s.n = 1792;
    s.k = 512;
    s.tokens = 17;
    sink.add(make(Profile::full, s));
  }
}

}  // namespace

Case matmul_id_case(Profile profile, quern_dtype b, std::int64_t tokens, std::int64_t experts, std::int64_t used, std::int64_t n,
                    std::int64_t k) {
  Shape s;
  s.b = b;
  s.tokens = tokens;
  s.experts = experts;
  s.used = used;
  s.n = n;
  s.k = k;
  return make(profile, s);
}

extern const Family matmul_id_family;
const Family matmul_id_family = {"matmul_id", generate};

}  // namespace quern::conformance
