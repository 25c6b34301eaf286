// matmul: y = alpha * a b^T + bias + beta * c. The cases; the reference is in matmul_reference.cpp.
//
// Quick: tile edges, odd sizes, every format, epilogues, layouts, and SmolLM2's weights. Full: the weight shapes of the models and more
// tokens. Products of more than 2^24 multiply-adds are judged at seeded outputs and all tile edges; everywhere by one-hot data and by
// integers.
#include "ops/matmul_reference.hpp"
#include "ops/shaped_cases.hpp"

#include "ops/hard_values.hpp"

#include "data/block_format.hpp"
#include "device_run/case_graph.hpp"
#include "device_run/prepared.hpp"
#include "device_run/status_words.hpp"
#include "device_run/script.hpp"

#include <algorithm>

namespace quern::conformance {
namespace {

Case make(Profile profile, ValueSpec a, ValueSpec b, ValueSpec y, std::vector<Attribute> attributes = {}) {
  Case c;
  c.group = "matmul";
  c.op = QUERN_OP_MATMUL;
  c.profile = profile;
  c.level = level_basic;
  c.fast_conversions = weight_conversions(b.dtype);
  c.inputs = {std::move(a), std::move(b)};
  c.outputs = {std::move(y)};
  c.attributes = std::move(attributes);
  c.reference = matmul_reference;
  return c;
}

Case product(Profile profile, quern_dtype a, quern_dtype b, quern_dtype y, std::int64_t m, std::int64_t n, std::int64_t k, DataKind data_a,
             DataKind data_b) {
  return make(profile, input(a, {m, k}, data_a), constant(b, {n, k}, data_b), output(y, {m, n}));
}

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Sizes around the tiles that kernels use.
constexpr std::int64_t edges[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};

void dense(CaseSink& sink) {
  for (const quern_dtype a : float_dtypes)
    for (const quern_dtype b : float_dtypes) {
      for (const std::int64_t m : {1, 2, 7, 16, 33, 65})
        for (const std::int64_t n : {1, 15, 64, 129})
          for (const std::int64_t k : {1, 31, 64, 257}) {
            const bool quick = (m + n + k) % 3 != 0 || a == b;
            sink.add(product(quick ? Profile::quick : Profile::full, a, b, QUERN_F32, m, n, k, DataKind::gaussian, DataKind::gaussian));
          }
      for (const std::int64_t m : {1, 5, 64})
        for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::integers}) {
          const DataKind data_b = data == DataKind::heavy ? DataKind::gaussian : data;
          sink.add(product(Profile::quick, a, b, QUERN_F32, m, 37, 512, data, data_b));
          sink.add(product(Profile::quick, a, b, a == QUERN_F16 ? QUERN_F16 : QUERN_BF16, m, 37, 512, data, data_b));
        }
      sink.add(product(Profile::quick, a, b, QUERN_F32, 33, 65, 129, DataKind::one_hot, DataKind::gaussian));
      sink.add(product(Profile::quick, a, b, QUERN_F32, 3, 33, 11008, DataKind::positive, DataKind::positive));
    }
  // Rows and depths at which products in packed panels of many rows change their parts; the last is longer than one slab of panels.
  constexpr std::pair<std::int64_t, std::int64_t> parts[] = {{287, 191},  {288, 192},  {289, 193},  {1019, 193},
                                                             {1020, 192}, {1021, 191}, {1021, 8300}};
  for (const auto& [m, k] : parts) {
    const Profile profile = k > 1024 ? Profile::full : Profile::quick;
    sink.add(product(profile, QUERN_F32, QUERN_F32, QUERN_F32, m, 33, k, DataKind::gaussian, DataKind::gaussian));
    sink.add(make(profile, input(QUERN_F32, {k, m}), input(QUERN_F32, {k, 33}), output(QUERN_F32, {m, 33}),
                  {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}));
  }
  for (const std::int64_t m : edges)
    for (const std::int64_t n : {1, 8, 17, 32, 65, 128}) {
      sink.add(product(Profile::full, QUERN_F32, QUERN_F16, QUERN_F32, m, n, 96, DataKind::uniform, DataKind::uniform));
      sink.add(product(Profile::full, QUERN_F32, QUERN_F32, QUERN_F32, m, n, 100, DataKind::uniform, DataKind::uniform));
    }
}

void attributes_and_layouts(CaseSink& sink) {
  for (const quern_dtype dtype : float_dtypes) {
    const auto a = [&](Dims dims, Layout layout = {}) { return input(dtype, std::move(dims), DataKind::gaussian, std::move(layout)); };
    const auto y = [&](Dims dims, Layout layout = {}) { return output(dtype, std::move(dims), std::move(layout)); };
    // More rows and outputs than a tile of the matrix units has, and a depth that ends within a step, as gradients of adapters have.
    sink.add(make(Profile::quick, a({70, 130}), a({137, 70}), y({130, 137}), {{QUERN_KEY_TRANSPOSE_A, 1}}));
    sink.add(make(Profile::quick, a({130, 70}), a({70, 137}), y({130, 137}), {{QUERN_KEY_TRANSPOSE_B, 1}}));
    sink.add(make(Profile::quick, a({70, 130}), a({70, 137}), y({130, 137}), {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}));
    // Sums so long that parts of them run side by side on the matrix units, of which the last is shorter.
    sink.add(make(Profile::quick, a({70, 1630}), a({65, 1630}), y({70, 65})));
    sink.add(make(Profile::quick, a({1630, 70}), a({1630, 65}), y({70, 65}), {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}));
    for (const std::int64_t k : {15, 16, 17, 1030}) {  // a step of shared memory, and sums so long that parts of them are made side by side
      sink.add(make(Profile::quick, a({21, k}), a({18, k}), y({21, 18})));
      sink.add(make(Profile::quick, a({k, 21}), a({k, 18}), y({21, 18}), {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}));
    }
    for (const std::int64_t m : {1, 6, 33}) {
      sink.add(make(Profile::quick, a({40, m}), a({17, 40}), y({m, 17}), {{QUERN_KEY_TRANSPOSE_A, 1}}));
      sink.add(make(Profile::quick, a({m, 40}), a({40, 17}), y({m, 17}), {{QUERN_KEY_TRANSPOSE_B, 1}}));
      sink.add(make(Profile::quick, a({40, m}), a({40, 17}), y({m, 17}), {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}}));
      for (const std::uint32_t key : {QUERN_KEY_TRANSPOSE_A, QUERN_KEY_TRANSPOSE_B})  // square: no shape says that it is transposed
        sink.add(make(Profile::quick, a({m, m}), a({m, m}), y({m, m}), {{key, 1}}));
      for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()}) {
        sink.add(make(Profile::quick, a({m, 40}, layout), a({17, 40}), y({m, 17})));
        sink.add(make(Profile::quick, a({m, 40}), a({17, 40}, layout), y({m, 17})));
        sink.add(make(Profile::quick, a({m, 40}), a({17, 40}), y({m, 17}, layout)));
      }
      for (const std::int64_t groups : {1, 2, 6}) sink.add(make(Profile::quick, a({6, m, 40}), a({groups, 17, 40}), y({6, m, 17})));
      sink.add(make(Profile::quick, a({2, 3, m, 40}), a({17, 40}), y({2, 3, m, 17})));
      Case with_bias = make(Profile::quick, a({m, 40}), a({17, 40}), y({m, 17}));
      with_bias.inputs.push_back(constant(QUERN_F32, {17}));
      sink.add(with_bias);
      with_bias.inputs.push_back(input(dtype, {m, 17}));
      with_bias.attributes = {{QUERN_KEY_ALPHA, 0.5}, {QUERN_KEY_BETA, -1.5}};
      sink.add(with_bias);
      with_bias.inputs[2] = absent();
      with_bias.attributes = {};
      sink.add(with_bias);
    }
  }
  sink.add(make(Profile::quick, input(QUERN_F32, {1536, 9, 8}), input(QUERN_F32, {1536, 7, 8}), output(QUERN_F32, {1536, 9, 7})));
  sink.add(make(Profile::quick, input(QUERN_F32, {0, 32}), constant(QUERN_F32, {5, 32}), output(QUERN_F32, {0, 5})));
}

void quantised(CaseSink& sink) {
  for (const quern_dtype b : block_dtypes) {
    const std::int64_t block = unit_of(b).elements;
    for (const std::int64_t m : {1, 2, 3, 5, 8, 17, 33})
      for (const std::int64_t n : {1, 8, 37})
        for (const std::int64_t k : {block, 3 * block, std::int64_t{1024}})
          if (k != block || n != 8)
            sink.add(product(Profile::quick, QUERN_F32, b, QUERN_F32, m, n, k, DataKind::gaussian, DataKind::gaussian));
    for (const std::int64_t m : {1, 4, 40}) {
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot, DataKind::integers})
        sink.add(product(Profile::quick, QUERN_F32, b, QUERN_F32, m, 65, 768, data, data));
      sink.add(product(Profile::quick, QUERN_F32, b, QUERN_F32, m, 33, 512, DataKind::one_hot, DataKind::specials));
      sink.add(product(Profile::quick, QUERN_F16, b, QUERN_F32, m, 33, 512, DataKind::gaussian, DataKind::gaussian));
      sink.add(product(Profile::quick, QUERN_BF16, b, QUERN_BF16, m, 33, 512, DataKind::gaussian, DataKind::gaussian));
      sink.add(make(Profile::quick, input(QUERN_F32, {m, 512}, DataKind::gaussian, rows_apart(3)), constant(b, {33, 512}),
                    output(QUERN_F32, {m, 33})));
      sink.add(make(Profile::quick, input(QUERN_F32, {m, 512}), constant(b, {33, 512}, DataKind::gaussian, rows_apart(1)),
                    output(QUERN_F32, {m, 33})));
      Case with_bias = product(Profile::quick, QUERN_F32, b, QUERN_F32, m, 65, 512, DataKind::gaussian, DataKind::gaussian);
      with_bias.inputs.push_back(constant(QUERN_F32, {65}));
      sink.add(with_bias);
    }
    for (const std::int64_t m : edges)
      for (const std::int64_t n : {16, 31, 64, 129})
        sink.add(product(Profile::full, QUERN_F32, b, QUERN_F32, m, n, 512, DataKind::uniform, DataKind::uniform));
  }
}

/// b is [k, n], and its blocks lie along n: the gradient of a product with frozen weights.
void turned_blocks(CaseSink& sink) {
  struct Size {
    std::int64_t m, blocks, k;
  };
  // Rows, columns and depths around the panels and tiles that kernels use.
  constexpr Size sizes[] = {{1, 1, 40}, {2, 3, 1}, {5, 2, 31}, {8, 1, 257}, {33, 3, 193}, {40, 1, 577}, {65, 2, 96}};
  const std::vector<Attribute> turned = {{QUERN_KEY_TRANSPOSE_B, 1}};
  for (const quern_dtype b : block_dtypes) {
    const std::int64_t block = unit_of(b).elements;
    const auto add = [&](Profile profile, ValueSpec a, ValueSpec weights, ValueSpec y) {
      sink.add(make(profile, std::move(a), std::move(weights), std::move(y), turned));
    };
    for (const Size& s : sizes) {
      add(Profile::quick, input(QUERN_F32, {s.m, s.k}), constant(b, {s.k, s.blocks * block}), output(QUERN_F32, {s.m, s.blocks * block}));
      add(Profile::full, input(QUERN_F32, {s.m, s.k}, DataKind::uniform), input(b, {s.k, 4 * block}, DataKind::uniform),
          output(QUERN_F32, {s.m, 4 * block}));
    }
    add(Profile::full, input(QUERN_F32, {289, 193}), constant(b, {193, 256}), output(QUERN_F32, {289, 256}));
    for (const std::int64_t m : {1, 4, 40}) {
      const auto weights = [&](DataKind data = DataKind::gaussian, Layout layout = {}) {
        return constant(b, {70, 512}, data, std::move(layout));
      };
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot, DataKind::integers})
        add(Profile::quick, input(QUERN_F32, {m, 70}, data), weights(data), output(QUERN_F32, {m, 512}));
      add(Profile::quick, input(QUERN_F32, {m, 70}, DataKind::one_hot), weights(DataKind::specials), output(QUERN_F32, {m, 512}));
      add(Profile::quick, input(QUERN_F16, {m, 70}), weights(), output(QUERN_F32, {m, 512}));
      add(Profile::quick, input(QUERN_BF16, {m, 70}), weights(), output(QUERN_BF16, {m, 512}));
      add(Profile::quick, input(QUERN_F32, {m, 70}, DataKind::gaussian, rows_apart(3)), weights(), output(QUERN_F32, {m, 512}));
      add(Profile::quick, input(QUERN_F32, {m, 70}), weights(DataKind::gaussian, rows_apart(1)), output(QUERN_F32, {m, 512}));
      add(Profile::quick, input(QUERN_F32, {m, 70}), weights(), output(QUERN_F32, {m, 512}, rows_apart(3)));
      add(Profile::quick, input(QUERN_F32, {3, m, 70}), weights(), output(QUERN_F32, {3, m, 512}));
      add(Profile::full, input(QUERN_F32, {4, m, 70}), constant(b, {2, 70, 512}), output(QUERN_F32, {4, m, 512}));
      Case both = make(Profile::quick, input(QUERN_F32, {70, m}), weights(), output(QUERN_F32, {m, 512}), turned);
      both.attributes.push_back({QUERN_KEY_TRANSPOSE_A, 1});
      sink.add(std::move(both));
      Case finished = make(Profile::quick, input(QUERN_F32, {m, 70}), weights(), output(QUERN_F32, {m, 512}), turned);
      finished.inputs.push_back(constant(QUERN_F32, {512}));
      finished.inputs.push_back(input(QUERN_F32, {m, 512}));
      finished.attributes.push_back({QUERN_KEY_ALPHA, 0.5});
      finished.attributes.push_back({QUERN_KEY_BETA, -1.5});
      sink.add(std::move(finished));
      for (const quern_dtype a : {QUERN_F32, QUERN_F16}) {  // as training in f16 has it
        Case f16 = make(Profile::quick, input(a, {m, 70}), weights(), output(a, {m, 512}), turned);
        f16.fast_conversions = QUERN_CONVERT_F16;
        f16.note = "f16_alone";
        sink.add(std::move(f16));
      }
    }
  }
}

/// y lies over c: the gradient of a weight that is added to what earlier rows gave.
void added_in_place(CaseSink& sink) {
  const auto add = [&](Profile profile, ValueSpec a, ValueSpec b, ValueSpec c, std::vector<Attribute> attributes = {},
                       ValueSpec bias = absent()) {
    Case made = make(profile, std::move(a), std::move(b), in_place(c, 3), std::move(attributes));
    made.inputs.push_back(std::move(bias));
    made.inputs.push_back(std::move(c));
    sink.add(std::move(made));
  };
  const std::vector<Attribute> both = {{QUERN_KEY_TRANSPOSE_A, 1}, {QUERN_KEY_TRANSPOSE_B, 1}};
  for (const quern_dtype dtype : float_dtypes)
    for (const std::int64_t m : {1, 6, 33, 130}) {
      const auto x = [&](Dims dims, DataKind data = DataKind::gaussian) { return input(dtype, std::move(dims), data); };
      for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy})
        add(Profile::quick, x({70, m}, data), x({70, 137}, data), x({m, 137}, data), both);
      add(Profile::quick, x({m, 70}), x({137, 70}), x({m, 137}));
      add(Profile::quick, x({70, m}), x({70, 137}), input(dtype, {m, 137}, DataKind::gaussian, rows_apart(3)), both);
      add(Profile::quick, x({3, 70, m}), x({3, 70, 17}), x({3, m, 17}), both);
      if (dtype != QUERN_F32) add(Profile::quick, x({64, m}), x({64, 136}), input(QUERN_F32, {m, 136}), both);
      add(Profile::quick, input(QUERN_F32, {m, 512}), constant(QUERN_Q8_0, {33, 512}), x({m, 33}), {}, constant(QUERN_F32, {33}));
      std::vector<Attribute> scaled = both;
      scaled.push_back({QUERN_KEY_ALPHA, 0.5});
      scaled.push_back({QUERN_KEY_BETA, -1.5});
      add(Profile::quick, x({70, m}), x({70, 137}), x({m, 137}), scaled, constant(QUERN_F32, {137}));
    }
  add(Profile::quick, input(QUERN_F32, {8300, 33}), input(QUERN_F32, {8300, 40}), input(QUERN_F32, {33, 40}), both);
  add(Profile::full, input(QUERN_F32, {8300, 1021}), input(QUERN_F32, {8300, 33}), input(QUERN_F32, {1021, 33}), both);
}

struct Weights {
  const char* model;
  std::int64_t n, k;
};
/// The distinct weight shapes, rows x columns.
constexpr Weights weights[] = {
    {"smollm2_135m", 576, 576},   {"smollm2_135m", 192, 576},    {"smollm2_135m", 1536, 576}, {"smollm2_135m", 576, 1536},
    {"smollm2_135m", 49152, 576}, {"tinyllama_1b", 2048, 2048},  {"tinyllama_1b", 256, 2048}, {"tinyllama_1b", 5632, 2048},
    {"tinyllama_1b", 2048, 5632}, {"tinyllama_1b", 32000, 2048}, {"llama_7b", 4096, 4096},    {"llama_7b", 11008, 4096},
    {"llama_7b", 4096, 11008},    {"llama_7b", 32000, 4096},     {"mistral_7b", 1024, 4096},  {"mistral_7b", 14336, 4096},
    {"mistral_7b", 4096, 14336},  {"qwen25_3b", 11008, 2048},    {"qwen25_3b", 2048, 11008},  {"qwen25_3b", 151936, 2048},
};

void model_shapes(CaseSink& sink) {
  for (const Weights& w : weights) {
    const bool small = w.n * w.k <= 1 << 20;
    for (const quern_dtype b : {QUERN_F16, QUERN_Q8_0, QUERN_Q4_0, QUERN_Q4_K, QUERN_Q6_K}) {
      if (w.k % unit_of(b).elements != 0) continue;  // K-quants of rows of 576 do not exist
      for (const std::int64_t m : {1, 7, 33}) {
        if (!small && m != 1 && b != QUERN_Q4_0 && b != QUERN_Q4_K) continue;
        Case c = product(small ? Profile::quick : Profile::full, QUERN_F32, b, QUERN_F32, m, w.n, w.k, DataKind::heavy, DataKind::gaussian);
        c.note = w.model;
        sink.add(c);
        if (w.n * w.k > 1 << 28) continue;  // f64 computes every output of what follows
        c.inputs[0].data = DataKind::one_hot;
        c.profile = Profile::full;
        sink.add(c);
        if (b == QUERN_Q8_0 || b == QUERN_Q6_K || (m != 1 && w.n * w.k > 1 << 22)) continue;  // integers: f64 computes every output
        c.inputs[0].data = c.inputs[1].data = DataKind::integers;
        sink.add(c);
      }
    }
  }
}

/// More tokens, formats and epilogues over a few of the models' weights: vectors of 1 to 8 tokens, then tiles and what is beside them.
void model_tokens(CaseSink& sink) {
  constexpr Weights small[] = {
      {"smollm2_135m", 576, 576}, {"smollm2_135m", 192, 576}, {"smollm2_135m", 1536, 576}, {"smollm2_135m", 576, 1536}};
  for (const Weights& w : small)
    for (const quern_dtype b : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K,
                                QUERN_Q5_K, QUERN_Q6_K}) {
      if (w.k % unit_of(b).elements != 0) continue;
      for (const std::int64_t m : {2, 3, 4, 5, 6, 8, 9, 16, 17, 31, 32, 64, 65, 128, 129}) {
        Case c = product(Profile::full, QUERN_F32, b, QUERN_F32, m, w.n, w.k, DataKind::gaussian, DataKind::gaussian);
        c.note = w.model;
        sink.add(c);
      }
      for (const std::int64_t m : {255, 256, 257, 511, 512, 513}) {
        if (w.n != 576 || w.k != 576) continue;
        Case c = product(Profile::full, QUERN_F32, b, QUERN_F32, m, w.n, w.k, DataKind::gaussian, DataKind::gaussian);
        c.note = w.model;
        sink.add(c);
      }
    }
  for (const Weights& w : {Weights{"tinyllama_1b", 2048, 2048},
                           {"tinyllama_1b", 256, 2048},
                           {"tinyllama_1b", 5632, 2048},
                           {"qwen25_3b", 2048, 2048},
                           {"mistral_7b", 1024, 4096}})
    for (const quern_dtype b : {QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q5_1, QUERN_Q5_K, QUERN_Q4_K})
      for (const std::int64_t m : {1, 2, 4, 8, 16, 65}) {
        Case c = product(Profile::full, QUERN_F32, b, QUERN_F32, m, w.n, w.k, DataKind::uniform, DataKind::gaussian);
        if (std::string(w.model) == "qwen25_3b") c.inputs.push_back(constant(QUERN_F32, {w.n}));  // its q, k and v have a bias
        c.note = w.model;
        sink.add(c);
      }
  for (const quern_dtype b : {QUERN_F16, QUERN_Q4_0, QUERN_Q4_K}) {
    Case c = product(Profile::full, QUERN_F32, b, QUERN_F32, 1, 32768, 4096, DataKind::gaussian, DataKind::gaussian);
    c.note = "mistral_7b_v3";
    sink.add(c);
  }
}

/// Batches that broadcast, transposes of mixed dtypes, and epilogues with all of them.
void batches_and_mixtures(CaseSink& sink) {
  for (const quern_dtype a : float_dtypes)
    for (const quern_dtype b : float_dtypes)
      for (const std::int64_t m : {1, 5, 34}) {
        const Profile profile = m == 5 ? Profile::quick : Profile::full;
        sink.add(make(profile, input(a, {2, 6, m, 40}), input(b, {2, 2, 17, 40}), output(QUERN_F32, {2, 6, m, 17})));
        sink.add(make(profile, input(a, {2, 6, m, 40}), input(b, {1, 3, 17, 40}), output(QUERN_F32, {2, 6, m, 17})));
        sink.add(make(Profile::full, input(a, {4, m, 40}), input(b, {4, 17, 40}, DataKind::gaussian, ordered({1, 0, 2})),
                      output(QUERN_F32, {4, m, 17})));
        sink.add(make(Profile::full, input(a, {4, m, 40}, DataKind::gaussian, ordered({1, 0, 2})), input(b, {2, 17, 40}),
                      output(a, {4, m, 17}, ordered({1, 0, 2}))));
        for (const double ta : {0, 1})
          for (const double tb : {0, 1}) {
            std::vector<Attribute> attributes;
            if (ta != 0) attributes.push_back({QUERN_KEY_TRANSPOSE_A, ta});
            if (tb != 0) attributes.push_back({QUERN_KEY_TRANSPOSE_B, tb});
            const Dims a_dims = ta != 0 ? Dims{6, 40, m} : Dims{6, m, 40}, b_dims = tb != 0 ? Dims{3, 40, 17} : Dims{3, 17, 40};
            if (ta + tb != 0) sink.add(make(profile, input(a, a_dims), input(b, b_dims), output(QUERN_F32, {6, m, 17}), attributes));
            attributes.push_back({QUERN_KEY_ALPHA, -0.75});
            attributes.push_back({QUERN_KEY_BETA, 0.5});
            Case c = make(Profile::full, input(a, a_dims), input(b, b_dims), output(a, {6, m, 17}), attributes);
            c.inputs.push_back(input(QUERN_F32, {17}));
            c.inputs.push_back(input(a, {6, m, 17}));
            sink.add(c);
            for (const DataKind data : {DataKind::positive, DataKind::integers, DataKind::one_hot})
              sink.add(make(Profile::full, input(a, a_dims, data), input(b, b_dims, data), output(QUERN_F32, {6, m, 17}),
                            std::vector<Attribute>(attributes.begin(), attributes.end() - 2)));
          }
      }
  for (const quern_dtype b : block_dtypes)
    for (const std::int64_t m : {1, 7}) {
      sink.add(make(Profile::quick, input(QUERN_F32, {3, m, 512}), constant(b, {33, 512}), output(QUERN_F32, {3, m, 33})));
      sink.add(make(Profile::full, input(QUERN_F32, {4, m, 512}), constant(b, {2, 33, 512}), output(QUERN_F32, {4, m, 33})));
      Case c = product(Profile::full, QUERN_F32, b, QUERN_F32, m, 33, 512, DataKind::gaussian, DataKind::gaussian);
      c.attributes = {{QUERN_KEY_ALPHA, 0.5}, {QUERN_KEY_BETA, -1.5}};
      c.inputs.push_back(constant(QUERN_F32, {33}));
      c.inputs.push_back(input(QUERN_F32, {m, 33}));
      sink.add(c);
      sink.add(make(Profile::full, input(QUERN_F16, {m, 512}), constant(b, {65, 512}), output(QUERN_F16, {m, 65}, rows_apart(3))));
    }
}

/// A row of `b` whose numbers are not finite: an infinite element, a NaN, or a block whose scale is NaN.
void fill_not_finite_weights(const Tensor& b, const CounterRandom& random) {
  if (is_float(b.dtype())) return fill_not_finite_rows(b, random);
  fill(b, DataKind::gaussian, random);
  const BlockFormat* format = BlockFormat::find(b.dtype());
  const Unit unit = unit_of(b.dtype());
  const std::int64_t blocks = b.dim_from_end(0) / unit.elements;
  for (std::int64_t row = 0; row < b.count() / b.dim_from_end(0); row += 7)
    format->set_entry(b.bytes().data() + static_cast<std::uint64_t>(row * blocks + row % blocks) * unit.bytes, QUERN_ROLE_SUPER_SCALE, 0,
                      0x7e00);
}

/// Numbers that kernels get wrong (hard_values.hpp). In fast numerics an infinite result may be NaN (plugin-api/OPS.md, "Conversions").
void hard_values(CaseSink& sink) {
  const auto add = [&](ValueSpec a, const char* name, void (*fill)(const Tensor&, const CounterRandom&), ValueSpec b, quern_dtype y) {
    a.data = DataKind::specials;  // the rows are not alike: no test of all outputs together
    const Dims dims{a.dims[0], b.dims[0]};
    sink.add(make(Profile::quick, filled(std::move(a), name, fill), std::move(b), output(y, dims)));
  };
  std::vector<quern_dtype> formats(float_dtypes.begin(), float_dtypes.end());
  formats.insert(formats.end(), block_dtypes.begin(), block_dtypes.end());
  for (const quern_dtype b : formats) {
    const std::int64_t block = unit_of(b).elements;
    const std::vector<std::int64_t> lengths = block == 1 ? std::vector<std::int64_t>{31, 33, 257}
                                                         : std::vector<std::int64_t>{block, 3 * block};
    for (const std::int64_t k : lengths)
      for (const std::int64_t m : {1, 7, 33}) {
        for (const quern_dtype a : float_dtypes)
          if (a == QUERN_F32 || block == 1 || m == 7)
            add(input(a, {m, k}), "not_finite_rows", fill_not_finite_rows, constant(b, {37, k}), QUERN_F32);
        if (k == lengths.front()) continue;
        add(input(QUERN_F32, {m, k}), "beyond_f16", fill_beyond_f16, constant(b, {37, k}), QUERN_F32);
        add(input(QUERN_F32, {m, k}), "tiny_blocks", fill_tiny_blocks, constant(b, {37, k}), QUERN_F32);
        add(input(QUERN_F32, {m, k}), "beyond_f16", fill_beyond_f16, constant(b, {37, k}), m == 7 ? QUERN_BF16 : QUERN_F16);
        ValueSpec not_finite = filled(constant(b, {37, k}), "not_finite_rows", fill_not_finite_weights);
        not_finite.data = DataKind::specials;
        sink.add(make(Profile::quick, input(QUERN_F32, {m, k}), std::move(not_finite), output(QUERN_F32, {m, 37})));
      }
  }
  for (const quern_dtype dtype : float_dtypes)  // the epilogue's operands: a bias stays in its column, c in its row
    for (const std::size_t which : {2u, 3u}) {
      Case c = make(Profile::quick, input(dtype, {14, 33}, DataKind::specials), constant(dtype, {37, 33}), output(QUERN_F32, {14, 37}));
      c.inputs[0] = filled(std::move(c.inputs[0]), "tiny_blocks", fill_tiny_blocks);
      c.inputs.push_back(constant(QUERN_F32, {37}));
      c.inputs.push_back(input(dtype, {14, 37}));
      c.inputs[which] = which == 3
                            ? filled(std::move(c.inputs[3]), "not_finite_rows", fill_not_finite_rows)
                            : filled(std::move(c.inputs[2]), "not_finite", [](const Tensor& bias, const CounterRandom& random) {
                                fill(bias, DataKind::gaussian, random);
                                bias.set(0, infinity), bias.set(16, -infinity), bias.set(36, std::numeric_limits<double>::quiet_NaN());
                              });
      sink.add(std::move(c));
    }
  for (const quern_dtype a : {QUERN_F16, QUERN_BF16})
    for (const std::int64_t m : {1, 33}) {
      add(input(a, {m, 257}), "beyond_f16", fill_beyond_f16, constant(a, {37, 257}), a);
      add(input(a, {m, 257}), "tiny_blocks", fill_tiny_blocks, constant(a, {37, 257}), QUERN_F32);
    }
}

/// A node that no backend can have: support says no or compile answers INVALID_ARGUMENT or UNSUPPORTED, and nothing else.
void reject(CaseSink& sink, const std::string& name, Case c) {
  sink.add_script("matmul.rejects." + name, "matmul", Profile::quick, level_basic, [c](ScriptContext& t) {
    const CaseGraph graph(c, 0);
    bool refused = false;
    try {
      refused = support_of(t.device(), graph.graph()).verdict == QUERN_ANSWER_NO;
    } catch (const AbiFailure& failure) { refused = failure.status() == QUERN_INVALID_ARGUMENT || failure.status() == QUERN_UNSUPPORTED; }
    t.check(refused, "support refuses it");
    const quern_status status = Prepared::try_compile(t.device(), graph.graph());
    t.check(status == QUERN_INVALID_ARGUMENT || status == QUERN_UNSUPPORTED,
            "compile answers INVALID_ARGUMENT or UNSUPPORTED, found " + status_words(status));
  });
}

void rejections(CaseSink& sink) {
  const auto plain = [](quern_dtype b, std::int64_t n, std::int64_t k) {
    return product(Profile::quick, QUERN_F32, b, QUERN_F32, 3, n, k, DataKind::gaussian, DataKind::gaussian);
  };
  for (const quern_dtype b : {QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K})
    for (const std::int64_t k : {576, 128, 255, 257})
      reject(sink, dtype_name(b) + "_rows_of_" + std::to_string(k), plain(b, 8, k));  // SmolLM2's width among them
  for (const quern_dtype b : {QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0})
    for (const std::int64_t k : {16, 33, 48}) reject(sink, dtype_name(b) + "_rows_of_" + std::to_string(k), plain(b, 8, k));
  for (const quern_dtype b : block_dtypes) {
    Case c =
        make(Profile::quick, input(QUERN_F32, {3, 256}), constant(b, {256, 48}), output(QUERN_F32, {3, 48}), {{QUERN_KEY_TRANSPOSE_B, 1}});
    reject(sink, dtype_name(b) + "_transposed_rows_of_48", c);
  }
  const auto f32 = [](Dims dims) { return input(QUERN_F32, std::move(dims)); };
  const auto y = [](Dims dims) { return output(QUERN_F32, std::move(dims)); };
  reject(sink, "row_lengths_that_differ", make(Profile::quick, f32({3, 32}), f32({5, 33}), y({3, 5})));
  reject(sink, "output_of_other_rows", make(Profile::quick, f32({3, 32}), f32({5, 32}), y({4, 5})));
  reject(sink, "output_of_other_columns", make(Profile::quick, f32({3, 32}), f32({5, 32}), y({3, 6})));
  reject(sink, "batches_that_do_not_divide", make(Profile::quick, f32({4, 3, 32}), f32({3, 5, 32}), y({4, 3, 5})));
  reject(sink, "integer_operand", make(Profile::quick, input(QUERN_I32, {3, 32}), f32({5, 32}), y({3, 5})));
  Case bias = make(Profile::quick, f32({3, 32}), f32({5, 32}), y({3, 5}));
  bias.inputs.push_back(f32({4}));
  reject(sink, "bias_of_other_columns", bias);
  bias.inputs[2] = absent();
  bias.inputs.push_back(f32({3, 4}));
  reject(sink, "addend_of_other_columns", bias);
  Case unknown = make(Profile::quick, f32({3, 32}), f32({5, 32}), y({3, 5}), {{QUERN_KEY_EPSILON, 0.5}});
  reject(sink, "attribute_of_another_op", unknown);
}

void generate(CaseSink& sink) {
  dense(sink);
  attributes_and_layouts(sink);
  quantised(sink);
  turned_blocks(sink);
  added_in_place(sink);
  model_shapes(sink);
  model_tokens(sink);
  batches_and_mixtures(sink);
  hard_values(sink);
  rejections(sink);
}

}  // namespace

Case product_case(Profile profile, quern_dtype a, quern_dtype b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Case c = product(profile, a, b, QUERN_F32, m, n, k, DataKind::gaussian, DataKind::gaussian);
  // A deadline by work: a driver that computes on one core reaches some 10^9 of these operations a second.
  constexpr double slowest = 5e8;
  const double work = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  c.deadline_seconds = std::max(c.deadline_seconds, static_cast<int>(work / slowest));
  return c;
}

extern const Family matmul_family;
const Family matmul_family = {"matmul", generate};

}  // namespace quern::conformance
